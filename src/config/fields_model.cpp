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

template <class S>
Fields<S> model() {
  return Fields<S>()
      .field("classes", &S::classes, automatic(integer(1, 1'000'000)),
             "Number of outputs. auto: as many as the training data has classes.")
      .field("weights", &S::weights, maybe(weights()),
             "Weights to start from instead of a random initialisation.")
      .field("memory_format", &S::memory_format,
             choice<MemoryFormat>({{"auto", MemoryFormat::automatic},
                                   {"contiguous", MemoryFormat::contiguous},
                                   {"channels_last", MemoryFormat::channels_last}}),
             "Layout of images and convolutions. auto: channels_last on CUDA.");
}

}  // namespace

Of<Model> model_type() {
  const auto mlp = model<Mlp>()
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
      model<ResNet>()
          .field("stem", &ResNet::stem,
                 choice<Stem>({{"imagenet", Stem::imagenet}, {"cifar", Stem::cifar}}),
                 "First layers. cifar: a 3x3 convolution of stride 1 and no pooling, for images "
                 "of about 32 pixels.")
          .field("zero_init_residual", &ResNet::zero_init_residual, boolean(),
                 "Start each residual branch at 0, which helps large batches.");
  return TaggedKinds<Model>("model")
      .kind("mlp", mlp, "Fully connected layers over the flattened image.")
      .kind("lenet", model<LeNet>(), "Two convolutions and three linear layers, for small images.")
      .kind("resnet18", resnet, "ResNet of 18 layers.", &ResNet::depth, 18)
      .kind("resnet34", resnet, "ResNet of 34 layers.", &ResNet::depth, 34)
      .kind("resnet50", resnet, "ResNet of 50 layers.", &ResNet::depth, 50)
      .kind("resnet101", resnet, "ResNet of 101 layers.", &ResNet::depth, 101)
      .type();
}

}  // namespace trainer::config
