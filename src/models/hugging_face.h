// Models from and to the folders of Hugging Face's transformers: their config.json and the names of
// their tensors. Reading and writing the tensors themselves is the checkpoint room's.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/experiment.h"
#include "core/tensors.h"

namespace trainer::models {

// The model of `folder`/config.json, of model_type gpt2, llama, mistral, qwen2 or vit; `vocabulary`
// or, where the file knows them, `classes` are set. `context` makes it take sequences of so many
// tokens instead of max_position_embeddings: fewer for a model with learned positions, any number
// for one with rotary ones. Of several shares of dropout it takes that of the blocks' outputs.
// Throws Error(config) naming the key and value of anything that this model would compute in
// another way, such as a sliding window shorter than the context.
config::Model read_hugging_face(const std::filesystem::path& folder,
                                std::optional<std::int64_t> context = std::nullopt);
// The same of config.json's content; `where` names it in errors.
config::Model from_hugging_face_config(const nlohmann::json& values, const std::string& where,
                                       std::optional<std::int64_t> context = std::nullopt);

// The tensors of a file for `config` under the model's own names, in the file's order. Known are
// GPT-2's with or without "transformer.", Llama's with or without "model.", and ViT's by timm's
// names or transformers' (of either layout), whose queries, keys and values are joined. Buffers
// that are no weights, and the head of a tied model, are left out; learned positions are cut to the
// context. What is not known stays as it is.
NamedTensors to_model_names(const NamedTensors& file, const config::Model& config);

// The other way: what transformers reads for a model of `config`. Language models have the names
// already; of a ViT the joined tensors are split (views).
NamedTensors to_hugging_face(const NamedTensors& model, const config::Model& config);

// config.json for a language model or ViT of `config` and `classes` (the vocabulary, for the
// former). Of a Llama with qkv_bias it is Qwen2's. Throws Error(config) for another kind.
nlohmann::json hugging_face_config(const config::Model& config, std::int64_t classes);

}  // namespace trainer::models
