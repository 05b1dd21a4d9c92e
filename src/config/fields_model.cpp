#include "config/fields.h"

namespace trainer::config {
namespace {

Of<Weights> weights() {
  return Fields<Weights>()
      .required("path", &Weights::path, text(4096),
                "A .safetensors file, a checkpoint folder, or a Hugging Face folder.")
      .field("strict", &Weights::strict, boolean(),
             "Refuse the file unless it has every key of the model and no other.")
      .field("skip", &Weights::skip, list(text(256), 0, 100),
             "Globs of the model's keys that keep their fresh initialisation, such as fc.*.")
      .short_for("path")
      .type();
}

constexpr std::int64_t kMostLayers = 1000;
constexpr std::int64_t kWidest = 1 << 20;

Of<Lora> lora() {
  return Fields<Lora>()
      .field("rank", &Lora::rank, integer(1, 65536), "Inner size of each adapter.")
      .field("alpha", &Lora::alpha, number(above(0, 1e6)),
             "The adapter's product is scaled by alpha / rank.")
      .field("dropout", &Lora::dropout, number(below(0, 1)),
             "Share of the adapter's input set to 0 in training.")
      .field("targets", &Lora::targets, automatic(list(text(256), 1, 100)),
             "Globs of the linear layers that get an adapter, such as *.q_proj. auto: c_attn of "
             "gpt2, q_proj and v_proj of llama, qkv of vit.")
      .type();
}

// What every model has.
template <class S>
Fields<S> trained_model() {
  return Fields<S>()
      .field("weights", &S::weights, maybe(weights()),
             "Weights to start from instead of a random initialisation.")
      .field("freeze", &S::freeze, list(text(256), 0, 1000),
             "Globs of parameters that keep their values, such as layer1.*.")
      .field("lora", &S::lora, maybe(lora()),
             "Train low-rank adapters of linear layers, and nothing else.");
}

template <class S>
Fields<S> classifier() {
  return trained_model<S>()
      .field("classes", &S::classes, automatic(integer(1, 1'000'000)),
             "Number of outputs. auto: as many as the training data has classes.")
      .field("memory_format", &S::memory_format,
             choice<MemoryFormat>({{"auto", MemoryFormat::automatic},
                                   {"contiguous", MemoryFormat::contiguous},
                                   {"channels_last", MemoryFormat::channels_last}}),
             "Layout of images and convolutions. auto: channels_last on CUDA.");
}

template <class S>
Fields<S> language_model() {
  return trained_model<S>()
      .field("layers", &S::layers, integer(1, kMostLayers), "Transformer blocks.")
      .field("heads", &S::heads, integer(1, 4096), "Attention heads; they divide width.")
      .field("width", &S::width, integer(1, kWidest), "Size of the hidden states.")
      .field("context", &S::context, integer(1, 1 << 24), "Longest sequence, in tokens.")
      .field("vocabulary", &S::vocabulary, automatic(integer(1, 1 << 24)),
             "Token ids that the model knows. auto: as many as the data's tokenizer has.")
      .field("tied", &S::tied, boolean(), "The output layer's weight is the token embedding.")
      .field("dropout", &S::dropout, number(below(0, 1)),
             "Share of embeddings, attention weights and block outputs set to 0 in training.");
}

Of<RopeScaling> rope_scaling() {
  using Kind = RopeScaling::Kind;
  return Fields<RopeScaling>()
      .field("kind", &RopeScaling::kind,
             choice<Kind>({{"none", Kind::none},
                           {"linear", Kind::linear},
                           {"dynamic", Kind::dynamic},
                           {"llama3", Kind::llama3},
                           {"yarn", Kind::yarn}}),
             "Hugging Face's rope_type.")
      .field("factor", &RopeScaling::factor, number(between(1, 1e6)), "How much longer it gets.")
      .field("original_context", &RopeScaling::original_context, integer(0, 1 << 24),
             "What the model was first trained on, in tokens; 0: its context.")
      .field("low_freq_factor", &RopeScaling::low_freq_factor, number(above(0, 1e6)),
             "llama3: waves longer than original_context over this are stretched in full.")
      .field("high_freq_factor", &RopeScaling::high_freq_factor, number(above(0, 1e6)),
             "llama3: waves shorter than original_context over this stay.")
      .field("beta_fast", &RopeScaling::beta_fast, number(above(0, 1e6)),
             "yarn: turns within the context above which a wave stays.")
      .field("beta_slow", &RopeScaling::beta_slow, number(above(0, 1e6)),
             "yarn: turns below which it is stretched in full.")
      .field("attention_factor", &RopeScaling::attention_factor, automatic(number(above(0, 1e6))),
             "yarn: auto is 0.1 ln(factor) + 1.")
      .field("truncate", &RopeScaling::truncate, boolean(),
             "yarn: whole numbers as the bounds of its ramp.")
      .short_for("kind")
      .type();
}

}  // namespace

Of<Model> model_type() {
  const auto mlp = classifier<Mlp>()
                       .field("hidden", &Mlp::hidden, list(integer(1, 1'000'000), 0, 64),
                              "Width of each hidden layer; an empty list is a linear classifier.")
                       .field("activation", &Mlp::activation,
                              choice<Activation>({{"relu", Activation::relu},
                                                  {"gelu", Activation::gelu},
                                                  {"tanh", Activation::tanh}}),
                              "Function after each hidden layer.")
                       .field("dropout", &Mlp::dropout, number(below(0, 1)),
                              "Share of hidden values set to 0 in training.");
  const auto resnet =
      classifier<ResNet>()
          .field("stem", &ResNet::stem,
                 choice<Stem>({{"imagenet", Stem::imagenet}, {"cifar", Stem::cifar}}),
                 "First layers. cifar: a 3x3 convolution of stride 1 and no pooling, for images "
                 "of about 32 pixels.")
          .field("zero_init_residual", &ResNet::zero_init_residual, boolean(),
                 "Start each residual branch at 0, which helps large batches.");
  const auto gpt2 = language_model<Gpt2>()
                        .field("intermediate", &Gpt2::intermediate, automatic(integer(1, kWidest)),
                               "Inner size of the MLP. auto: 4 * width.")
                        .field("norm_eps", &Gpt2::norm_eps, number(above(0, 1)),
                               "Added to the variance in layer norms.");
  const auto llama = language_model<Llama>()
                         .field("kv_heads", &Llama::kv_heads, automatic(integer(1, 4096)),
                                "Heads of keys and values; they divide heads. auto: heads.")
                         .field("head_size", &Llama::head_size, automatic(integer(2, 4096)),
                                "Size of a head. auto: width / heads.")
                         .field("intermediate", &Llama::intermediate, integer(1, kWidest),
                                "Inner size of the gated MLP.")
                         .field("rope_theta", &Llama::rope_theta, number(above(0, 1e12)),
                                "Base of the rotary embedding's wavelengths.")
                         .field("rope_scaling", &Llama::rope_scaling, rope_scaling(),
                                "How the rotary embedding is stretched to longer sequences.")
                         .field("norm_eps", &Llama::norm_eps, number(above(0, 1)),
                                "Added to the mean square in RMS norms.")
                         .field("qkv_bias", &Llama::qkv_bias, boolean(),
                                "Biases of queries, keys and values, as Qwen2 has them.");
  const auto vit =
      classifier<Vit>()
          .field("image", &Vit::image, integer(1, 65536), "Height and width of the images.")
          .field("patch", &Vit::patch, integer(1, 65536),
                 "Height and width of a patch; it divides image.")
          .field("layers", &Vit::layers, integer(1, kMostLayers), "Transformer blocks.")
          .field("heads", &Vit::heads, integer(1, 4096), "Attention heads; they divide width.")
          .field("width", &Vit::width, integer(1, kWidest), "Size of the hidden states.")
          .field("intermediate", &Vit::intermediate, integer(1, kWidest), "Inner size of the MLP.")
          .field("dropout", &Vit::dropout, number(below(0, 1)),
                 "Share of embeddings, attention weights and block outputs set to 0 in training.")
          .field("norm_eps", &Vit::norm_eps, number(above(0, 1)),
                 "Added to the variance in layer norms.");
  const auto hugging_face =
      trained_model<HuggingFace>()
          .required("path", &HuggingFace::path, text(4096),
                    "Folder with config.json and .safetensors files, as transformers saves it.")
          .field("context", &HuggingFace::context, automatic(integer(1, 1 << 24)),
                 "Longest sequence, in tokens. auto: the folder's max_position_embeddings.")
          .field("dropout", &HuggingFace::dropout, number(below(0, 1)),
                 "As for the kinds of transformers.");
  return TaggedKinds<Model>("model")
      .kind("mlp", mlp, "Fully connected layers over the flattened image.")
      .kind("lenet", classifier<LeNet>(),
            "Two convolutions and three linear layers, for small images.")
      .kind("resnet18", resnet, "ResNet of 18 layers.", &ResNet::depth, 18)
      .kind("resnet34", resnet, "ResNet of 34 layers.", &ResNet::depth, 34)
      .kind("resnet50", resnet, "ResNet of 50 layers.", &ResNet::depth, 50)
      .kind("resnet101", resnet, "ResNet of 101 layers.", &ResNet::depth, 101)
      .kind("vit", vit, "Vision transformer.")
      .kind("gpt2", gpt2, "GPT-2.")
      .kind("llama", llama, "Llama 2 and 3, Mistral, Qwen2, SmolLM.")
      .kind("hf", hugging_face, "The model of a Hugging Face folder, with its weights.")
      .type();
}

}  // namespace trainer::config
