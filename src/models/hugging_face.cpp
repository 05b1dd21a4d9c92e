#include "models/hugging_face.h"

#include <ATen/ops/cat.h>

#include <cmath>
#include <fstream>
#include <initializer_list>

#include "core/error.h"

namespace trainer::models {
namespace {

using nlohmann::json;
using Scaling = config::RopeScaling;

// A config.json, or a table in it; errors name the key.
class Keys {
 public:
  Keys(const json& values, std::string where) : values_(values), where_(std::move(where)) {}

  bool has(const char* key) const { return values_.contains(key) && !values_.at(key).is_null(); }

  template <class T>
  T get(const char* key) const {
    if (!has(key)) {
      throw Error(Exit::config, where_ + " has no " + key +
                                    ": give the folder of a whole model, as transformers' "
                                    "save_pretrained writes it");
    }
    try {
      return values_.at(key).get<T>();
    } catch (const json::exception&) {
      refuse(key, "which is of another type than this model's");
    }
  }
  template <class T>
  T get(const char* key, T otherwise) const {
    return has(key) ? get<T>(key) : otherwise;
  }
  template <class T>
  std::optional<T> find(const char* key) const {
    return has(key) ? std::optional<T>(get<T>(key)) : std::nullopt;
  }
  Keys table(const char* key) const { return {values_.at(key), where_ + ": " + key}; }
  bool is_table(const char* key) const { return has(key) && values_.at(key).is_object(); }
  std::size_t count(const char* key) const { return values_.at(key).size(); }

  [[noreturn]] void refuse(const char* key, const std::string& reason) const {
    throw Error(Exit::config,
                where_ + " has " + key + ": " + values_.value(key, json()).dump() + ", " + reason);
  }
  template <class T>
  void require(const char* key, T wanted) const {
    if (has(key) && get<T>(key) != wanted) {
      refuse(key, "and only " + json(wanted).dump() + " is supported: use another model");
    }
  }
  void require_one_of(const char* key, std::initializer_list<const char*> names) const {
    if (!has(key)) return;
    const auto value = get<std::string>(key);
    std::string known;
    for (const char* name : names) {
      if (value == name) return;
      known += (known.empty() ? "" : " or ") + std::string(name);
    }
    refuse(key, "and only " + known + " is supported: use another model");
  }

 private:
  const json& values_;
  std::string where_;
};

config::Gpt2 read_gpt2(const Keys& keys, std::optional<std::int64_t> context) {
  keys.require_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  keys.require("scale_attn_weights", true);
  keys.require("scale_attn_by_inverse_layer_idx", false);
  keys.require("add_cross_attention", false);
  config::Gpt2 model;
  model.layers = keys.get<std::int64_t>("n_layer");
  model.heads = keys.get<std::int64_t>("n_head");
  model.width = keys.get<std::int64_t>("n_embd");
  model.vocabulary = keys.get<std::int64_t>("vocab_size");
  model.intermediate = keys.find<std::int64_t>("n_inner");
  model.tied = keys.get("tie_word_embeddings", true);
  model.dropout = keys.get("resid_pdrop", 0.1);
  model.norm_eps = keys.get("layer_norm_epsilon", 1e-5);
  const auto positions = keys.get<std::int64_t>("n_positions");
  if (context && *context > positions) {
    keys.refuse("n_positions", "and model.context is " + std::to_string(*context) +
                                   ": learned positions cannot grow, so set it to at most that");
  }
  model.context = context.value_or(positions);
  return model;
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void read_yarn(const Keys& rope, Scaling& scaling) {
  scaling.beta_fast = rope.get("beta_fast", 32.0);
  scaling.beta_slow = rope.get("beta_slow", 1.0);
  scaling.truncate = rope.get("truncate", true);
  scaling.attention_factor = rope.find<double>("attention_factor");
  const double mscale = rope.get("mscale", 0.0);
  const double all_dim = rope.get("mscale_all_dim", 0.0);
  if (!scaling.attention_factor && mscale != 0 && all_dim != 0) {
    scaling.attention_factor =
        yarn_scale(scaling.factor, mscale) / yarn_scale(scaling.factor, all_dim);
  }
}

Scaling read_scaling(const Keys& rope, std::int64_t positions,
                     std::optional<std::int64_t> top_level) {
  Scaling scaling;
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const auto kind = rope.get<std::string>(key, "default");
  if (kind == "default") return scaling;
  if (kind != "linear" && kind != "dynamic" && kind != "llama3" && kind != "yarn") {
    rope.refuse(key,
                "and only default, linear, dynamic, llama3 and yarn are supported: use "
                "another model");
  }
  scaling.original_context = positions;
  if (kind == "llama3" || kind == "yarn") {
    scaling.original_context =
        top_level.value_or(rope.get("original_max_position_embeddings", positions));
  }
  const double stretched =
      static_cast<double>(positions) / static_cast<double>(scaling.original_context);
  scaling.factor = kind == "yarn" ? rope.get("factor", stretched) : rope.get<double>("factor");
  if (kind == "linear") scaling.kind = Scaling::Kind::linear;
  if (kind == "dynamic") scaling.kind = Scaling::Kind::dynamic;
  if (kind == "llama3") {
    scaling.kind = Scaling::Kind::llama3;
    scaling.low_freq_factor = rope.get<double>("low_freq_factor");
    scaling.high_freq_factor = rope.get<double>("high_freq_factor");
  }
  if (kind == "yarn") {
    scaling.kind = Scaling::Kind::yarn;
    read_yarn(rope, scaling);
  }
  if (kind == "linear") scaling.original_context = 0;
  return scaling;
}

// transformers 5 writes rope_parameters, earlier ones rope_theta and rope_scaling.
void read_rope(const Keys& keys, std::int64_t positions, config::Llama& model) {
  keys.require("partial_rotary_factor", 1.0);
  model.rope_theta = keys.get("rope_theta", 10000.0);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!keys.is_table(name)) continue;
    const Keys rope = keys.table(name);
    rope.require("partial_rotary_factor", 1.0);
    model.rope_theta = rope.get("rope_theta", model.rope_theta);
    model.rope_scaling =
        read_scaling(rope, positions, keys.find<std::int64_t>("original_max_position_embeddings"));
  }
}

void require_no_window(const Keys& keys, const std::string& type, std::int64_t context) {
  if (type == "llama" || !keys.has("sliding_window")) return;
  if (type == "qwen2" && !keys.get("use_sliding_window", false)) return;
  if (keys.get<std::int64_t>("sliding_window") >= context) return;
  keys.refuse("sliding_window", "and attention here sees the whole context of " +
                                    std::to_string(context) +
                                    " tokens: set model.context to at most the window");
}

config::Llama read_llama(const Keys& keys, const std::string& type,
                         std::optional<std::int64_t> context) {
  keys.require_one_of("hidden_act", {"silu", "swish"});
  keys.require("mlp_bias", false);
  if (type == "llama") keys.require("attention_bias", false);
  config::Llama model;
  model.layers = keys.get<std::int64_t>("num_hidden_layers");
  model.heads = keys.get<std::int64_t>("num_attention_heads");
  model.width = keys.get<std::int64_t>("hidden_size");
  model.intermediate = keys.get<std::int64_t>("intermediate_size");
  model.vocabulary = keys.get<std::int64_t>("vocab_size");
  model.kv_heads = keys.find<std::int64_t>("num_key_value_heads");
  model.head_size = keys.find<std::int64_t>("head_dim");
  model.tied = keys.get("tie_word_embeddings", false);
  model.norm_eps = keys.get("rms_norm_eps", 1e-6);
  model.dropout = keys.get("attention_dropout", 0.0);
  model.qkv_bias = type == "qwen2";
  const auto positions = keys.get<std::int64_t>("max_position_embeddings");
  model.context = context.value_or(positions);
  read_rope(keys, positions, model);
  require_no_window(keys, type, model.context);
  return model;
}

config::Vit read_vit(const Keys& keys) {
  keys.require_one_of("hidden_act", {"gelu"});
  keys.require("qkv_bias", true);
  config::Vit model;
  model.image = keys.get<std::int64_t>("image_size", 224);
  model.patch = keys.get<std::int64_t>("patch_size", 16);
  model.layers = keys.get<std::int64_t>("num_hidden_layers");
  model.heads = keys.get<std::int64_t>("num_attention_heads");
  model.width = keys.get<std::int64_t>("hidden_size");
  model.intermediate = keys.get<std::int64_t>("intermediate_size");
  model.dropout = keys.get("hidden_dropout_prob", 0.0);
  model.norm_eps = keys.get("layer_norm_eps", 1e-12);
  if (keys.is_table("id2label")) {
    model.classes = static_cast<std::int64_t>(keys.count("id2label"));
  } else {
    model.classes = keys.find<std::int64_t>("num_labels");
  }
  return model;
}

bool cut(std::string& text, const std::string& prefix) {
  if (!text.starts_with(prefix)) return false;
  text.erase(0, prefix.size());
  return true;
}

NamedTensors gpt2_names(const NamedTensors& file, const config::Gpt2& config) {
  NamedTensors tensors;
  for (auto [name, value] : file) {
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
    if (name == "lm_head.weight") {
      if (!config.tied) tensors.push_back({name, value});
      continue;
    }
    cut(name, "transformer.");
    if (name == "wpe.weight" && value.dim() == 2 && value.size(0) > config.context) {
      value = value.narrow(0, 0, config.context);
    }
    const bool known = name.starts_with("wte.") || name.starts_with("wpe.") ||
                       name.starts_with("h.") || name.starts_with("ln_f.");
    tensors.push_back({(known ? "transformer." : "") + name, value});
  }
  return tensors;
}

NamedTensors llama_names(const NamedTensors& file, const config::Llama& config) {
  NamedTensors tensors;
  for (auto [name, value] : file) {
    if (name.ends_with(".rotary_emb.inv_freq")) continue;
    if (name == "lm_head.weight" && config.tied) continue;
    const bool bare = name.starts_with("embed_tokens.") || name.starts_with("layers.") ||
                      name.starts_with("norm.");
    tensors.push_back({(bare ? "model." : "") + name, value});
  }
  return tensors;
}

struct Renamed {
  const char* theirs;
  const char* ours;
};
// The parts of a ViT: transformers' names as its files have them, and as transformers 5 has them in
// memory. Written are the first of those that come to one of ours.
constexpr Renamed kVitParts[] = {
    {"embeddings.cls_token", "cls_token"},
    {"embeddings.position_embeddings", "pos_embed"},
    {"embeddings.patch_embeddings.projection.weight", "patch_embed.proj.weight"},
    {"embeddings.patch_embeddings.projection.bias", "patch_embed.proj.bias"},
    {"layernorm.weight", "norm.weight"},
    {"layernorm.bias", "norm.bias"},
};
constexpr Renamed kVitLayerParts[] = {
    {"layernorm_before", "norm1"},
    {"layernorm_after", "norm2"},
    {"attention.attention.query", "attn.query"},
    {"attention.attention.key", "attn.key"},
    {"attention.attention.value", "attn.value"},
    {"attention.output.dense", "attn.proj"},
    {"intermediate.dense", "mlp.fc1"},
    {"output.dense", "mlp.fc2"},
    {"attention.q_proj", "attn.query"},
    {"attention.k_proj", "attn.key"},
    {"attention.v_proj", "attn.value"},
    {"attention.o_proj", "attn.proj"},
};
constexpr const char* kQkv[] = {"attn.query", "attn.key", "attn.value"};

// "3.layernorm_before.weight" -> "blocks.3.norm1.weight".
std::string vit_layer_name(const std::string& rest) {
  const std::size_t number = rest.find('.');
  const std::size_t last = rest.rfind('.');
  if (number == std::string::npos || last <= number) return "blocks." + rest;
  std::string part = rest.substr(number + 1, last - number - 1);
  for (const Renamed& known : kVitLayerParts) {
    if (part != known.theirs) continue;
    part = known.ours;
    break;
  }
  return "blocks." + rest.substr(0, number + 1) + part + rest.substr(last);
}

std::string vit_name(std::string name) {
  if (cut(name, "classifier.")) return "head." + name;
  cut(name, "vit.");
  if (cut(name, "encoder.layer.") || cut(name, "layers.")) return vit_layer_name(name);
  for (const Renamed& known : kVitParts) {
    if (name == known.theirs) return known.ours;
  }
  return name;
}

const at::Tensor* find(const NamedTensors& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor.value;
  }
  return nullptr;
}

// Queries, keys and values stand together in the place of the queries.
NamedTensors join_qkv(const NamedTensors& parts) {
  NamedTensors joined;
  for (const auto& [name, value] : parts) {
    const std::size_t at = name.find(".attn.query.");
    if (name.find(".attn.key.") != std::string::npos ||
        name.find(".attn.value.") != std::string::npos) {
      continue;
    }
    if (at == std::string::npos) {
      joined.push_back({name, value});
      continue;
    }
    const std::string block = name.substr(0, at + 1);
    const std::string kind = name.substr(name.rfind('.'));
    std::vector<at::Tensor> three;
    for (const char* part : kQkv) {
      if (const at::Tensor* found = find(parts, block + part + kind)) three.push_back(*found);
    }
    joined.push_back({block + "attn.qkv" + kind, at::cat(three)});
  }
  return joined;
}

NamedTensors vit_names(const NamedTensors& file) {
  if (find(file, "patch_embed.proj.weight") != nullptr) return file;
  NamedTensors parts;
  for (const auto& [name, value] : file) {
    if (name.starts_with("pooler.") || name.starts_with("vit.pooler.")) continue;
    parts.push_back({vit_name(name), value});
  }
  return join_qkv(parts);
}

std::string vit_layer_part(const std::string& ours) {
  for (const Renamed& known : kVitLayerParts) {
    if (ours == known.ours) return known.theirs;
  }
  return ours;
}

// "3.norm1.weight" -> "vit.encoder.layer.3.layernorm_before.weight", and the three of a joined one.
void add_vit_layer(const std::string& rest, const at::Tensor& value, NamedTensors& tensors) {
  const std::size_t number = rest.find('.');
  const std::size_t last = rest.rfind('.');
  const std::string block = "vit.encoder.layer." + rest.substr(0, number + 1);
  const std::string part = rest.substr(number + 1, last - number - 1);
  const std::string kind = rest.substr(last);
  if (part != "attn.qkv") {
    tensors.push_back({block + vit_layer_part(part) + kind, value});
    return;
  }
  const std::vector<at::Tensor> three = value.chunk(3);
  for (std::size_t i = 0; i < three.size(); ++i) {
    tensors.push_back({block + vit_layer_part(kQkv[i]) + kind, three[i]});
  }
}

NamedTensors vit_to_hugging_face(const NamedTensors& model) {
  NamedTensors tensors;
  for (const auto& [ours, value] : model) {
    std::string name = ours;
    if (cut(name, "blocks.")) {
      add_vit_layer(name, value, tensors);
      continue;
    }
    if (cut(name, "head.")) {
      tensors.push_back({"classifier." + name, value});
      continue;
    }
    for (const Renamed& known : kVitParts) {
      if (name != known.ours) continue;
      name = std::string("vit.") + known.theirs;
      break;
    }
    tensors.push_back({name, value});
  }
  return tensors;
}

json optional_json(const std::optional<std::int64_t>& value) {
  return value ? json(*value) : json();
}

// What the rotary embedding was trained on; 0 in the configuration stands for the context.
std::int64_t original_context(const config::Llama& llama) {
  const std::int64_t original = llama.rope_scaling.original_context;
  return original > 0 ? original : llama.context;
}

json rope_json(const config::Llama& llama) {
  const Scaling& scaling = llama.rope_scaling;
  json rope = {{"rope_theta", llama.rope_theta}};
  switch (scaling.kind) {
    case Scaling::Kind::none:
      rope["rope_type"] = "default";
      return rope;
    case Scaling::Kind::linear:
      rope["rope_type"] = "linear";
      break;
    case Scaling::Kind::dynamic:
      rope["rope_type"] = "dynamic";
      break;
    case Scaling::Kind::llama3:
      rope.update({{"rope_type", "llama3"},
                   {"low_freq_factor", scaling.low_freq_factor},
                   {"high_freq_factor", scaling.high_freq_factor},
                   {"original_max_position_embeddings", original_context(llama)}});
      break;
    case Scaling::Kind::yarn:
      rope.update({{"rope_type", "yarn"},
                   {"beta_fast", scaling.beta_fast},
                   {"beta_slow", scaling.beta_slow},
                   {"truncate", scaling.truncate},
                   {"original_max_position_embeddings", original_context(llama)}});
      if (scaling.attention_factor) rope["attention_factor"] = *scaling.attention_factor;
      break;
  }
  rope["factor"] = scaling.factor;
  return rope;
}

struct WriteConfig {
  std::int64_t classes;

  json operator()(const config::Gpt2& model) const {
    return {{"model_type", "gpt2"},
            {"architectures", {"GPT2LMHeadModel"}},
            {"activation_function", "gelu_new"},
            {"n_layer", model.layers},
            {"n_head", model.heads},
            {"n_embd", model.width},
            {"n_inner", optional_json(model.intermediate)},
            {"n_positions", model.context},
            {"vocab_size", classes},
            {"layer_norm_epsilon", model.norm_eps},
            {"resid_pdrop", model.dropout},
            {"embd_pdrop", model.dropout},
            {"attn_pdrop", model.dropout},
            {"tie_word_embeddings", model.tied},
            {"bos_token_id", nullptr},
            {"eos_token_id", nullptr},
            {"dtype", "float32"}};
  }
  // Both rope_parameters, for transformers 5, and what earlier ones read in its place.
  json operator()(const config::Llama& model) const {
    const bool qwen = model.qkv_bias;
    const Scaling& scaling = model.rope_scaling;
    const bool dynamic = scaling.kind == Scaling::Kind::dynamic;
    json values = {{"model_type", qwen ? "qwen2" : "llama"},
                   {"architectures", {qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
                   {"hidden_act", "silu"},
                   {"num_hidden_layers", model.layers},
                   {"num_attention_heads", model.heads},
                   {"num_key_value_heads", model.kv_heads.value_or(model.heads)},
                   {"hidden_size", model.width},
                   {"head_dim", model.head_size.value_or(model.width / model.heads)},
                   {"intermediate_size", model.intermediate},
                   {"max_position_embeddings", dynamic ? original_context(model) : model.context},
                   {"vocab_size", classes},
                   {"rms_norm_eps", model.norm_eps},
                   {"attention_dropout", model.dropout},
                   {"tie_word_embeddings", model.tied},
                   {"rope_parameters", rope_json(model)},
                   {"rope_theta", model.rope_theta},
                   {"bos_token_id", nullptr},
                   {"eos_token_id", nullptr},
                   {"dtype", "float32"}};
    if (scaling.kind != Scaling::Kind::none) values["rope_scaling"] = rope_json(model);
    if (qwen) {
      values["use_sliding_window"] = false;
    } else {
      values.update({{"attention_bias", false}, {"mlp_bias", false}});
    }
    return values;
  }
  json operator()(const config::Vit& model) const {
    json labels = json::object();
    json numbers = json::object();
    for (std::int64_t i = 0; i < classes; ++i) {
      const std::string label = "LABEL_" + std::to_string(i);
      labels[std::to_string(i)] = label;
      numbers[label] = i;
    }
    return {{"model_type", "vit"},
            {"architectures", {"ViTForImageClassification"}},
            {"hidden_act", "gelu"},
            {"image_size", model.image},
            {"patch_size", model.patch},
            {"num_hidden_layers", model.layers},
            {"num_attention_heads", model.heads},
            {"hidden_size", model.width},
            {"intermediate_size", model.intermediate},
            {"hidden_dropout_prob", model.dropout},
            {"attention_probs_dropout_prob", model.dropout},
            {"layer_norm_eps", model.norm_eps},
            {"qkv_bias", true},
            {"id2label", labels},
            {"label2id", numbers},
            {"dtype", "float32"}};
  }
  template <class Other>
  json operator()(const Other&) const {
    throw Error(Exit::config,
                "transformers has no class for this model.kind: export it as safetensors instead");
  }
};

}  // namespace

config::Model from_hugging_face_config(const json& values, const std::string& where,
                                       std::optional<std::int64_t> context) {
  if (!values.is_object()) {
    throw Error(Exit::config, where +
                                  " is no table of keys: give the folder of a model as "
                                  "transformers' save_pretrained writes it");
  }
  const Keys keys(values, where);
  const auto type = keys.get<std::string>("model_type");
  if (type == "gpt2") return read_gpt2(keys, context);
  if (type == "llama" || type == "mistral" || type == "qwen2") {
    return read_llama(keys, type, context);
  }
  if (type == "vit") return read_vit(keys);
  keys.refuse("model_type",
              "and only gpt2, llama, mistral, qwen2 and vit are supported: use "
              "another model");
}

config::Model read_hugging_face(const std::filesystem::path& folder,
                                std::optional<std::int64_t> context) {
  const std::filesystem::path path = folder / "config.json";
  std::ifstream file(path);
  if (!file) {
    throw Error(Exit::config, path.string() +
                                  " cannot be read: give the folder of a model as transformers' "
                                  "save_pretrained writes it");
  }
  json values;
  try {
    values = json::parse(file);
  } catch (const json::exception& error) {
    throw Error(Exit::config,
                path.string() + " is no JSON (" + error.what() + "): download the model again");
  }
  return from_hugging_face_config(values, path.string(), context);
}

NamedTensors to_model_names(const NamedTensors& file, const config::Model& config) {
  if (const auto* gpt2 = std::get_if<config::Gpt2>(&config)) return gpt2_names(file, *gpt2);
  if (const auto* llama = std::get_if<config::Llama>(&config)) return llama_names(file, *llama);
  if (std::holds_alternative<config::Vit>(config)) return vit_names(file);
  return file;
}

NamedTensors to_hugging_face(const NamedTensors& model, const config::Model& config) {
  return std::holds_alternative<config::Vit>(config) ? vit_to_hugging_face(model) : model;
}

json hugging_face_config(const config::Model& config, std::int64_t classes) {
  return std::visit(WriteConfig{classes}, config);
}

}  // namespace trainer::models
