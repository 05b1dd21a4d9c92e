#include "config/fields.h"

namespace trainer::config {
namespace {

constexpr double kLargestDecay = 100;

Of<Group> group() {
  return Fields<Group>()
      .required("match", &Group::match, text(256),
                "Glob of parameter names; the first group that matches takes a parameter.")
      .field("lr_factor", &Group::lr_factor, number(between(0, 10'000)),
             "Multiplies the learning rate; 0 freezes.")
      .field("weight_decay", &Group::weight_decay, maybe(number(between(0, kLargestDecay))),
             "Weight decay of the group; null: the optimiser's.")
      .type();
}

template <class S>
Fields<S> optimiser() {
  const auto ema = Fields<Ema>()
                       .field("decay", &Ema::decay, number(below(0, 1)),
                              "Share of the average that stays at each update.")
                       .short_for("decay");
  return Fields<S>()
      .field("lr", &S::lr, number(above(0, 1000)),
             "Learning rate; the schedule multiplies it by a factor.")
      .field("weight_decay", &S::weight_decay, number(between(0, kLargestDecay)),
             "L2 penalty; decoupled from the gradient for adamw.")
      .field("groups", &S::groups, list(group(), 0, 1000), "Parameters with settings of their own.")
      .field("clip_norm", &S::clip_norm, maybe(number(above(0, 1e9))),
             "Largest 2-norm of the whole gradient.")
      .field("layer_decay", &S::layer_decay, number(above(0, 1)),
             "Factor of the learning rate from each block to the one before it; 1: the same for "
             "all.")
      .field("ema", &S::ema, maybe(ema.type()),
             "Exponential moving average of the weights, which evaluation then uses.");
}

template <class S>
Fields<S> schedule() {
  return Fields<S>().field("length", &S::length, automatic(length(Zero::refused, Times::refused)),
                           "Where the shape ends, warm-up included. auto: train.length.");
}

template <class S>
Fields<S> with_warmup() {
  return schedule<S>()
      .field("warmup", &S::warmup, length(Zero::allowed, Times::refused),
             "Linear rise at the start.")
      .field("warmup_start", &S::warmup_start, number(between(0, 1)),
             "Factor of lr at the first update of the warm-up.");
}

constexpr const char* kFinal = "Factor of lr at the end and after it.";

}  // namespace

Of<Objective> objective_type() {
  const auto cross_entropy = Fields<CrossEntropy>().field(
      "label_smoothing", &CrossEntropy::label_smoothing, number(below(0, 1)),
      "Share of the target spread evenly over all classes.");
  const auto language_modeling =
      Fields<LanguageModeling>()
          .field("label_smoothing", &LanguageModeling::label_smoothing, number(below(0, 1)),
                 "Share of the target spread evenly over the vocabulary.")
          .field("z_loss", &LanguageModeling::z_loss, number(between(0, 1)),
                 "Coefficient of the squared logarithm of the softmax's denominator.");
  return TaggedKinds<Objective>("objective")
      .kind("cross_entropy", cross_entropy, "Cross-entropy of the softmax.")
      .kind("language_modeling", language_modeling,
            "Cross-entropy of the next token, without logits of the whole batch.")
      .kind("mse", Fields<Mse>(), "Squared error against one-hot targets, the mean over classes.")
      .by_default("cross_entropy")
      .type();
}

Of<Optim> optim_type() {
  const auto sgd = optimiser<Sgd>()
                       .field("momentum", &Sgd::momentum, number(below(0, 1)),
                              "Share of the last update that goes on.")
                       .field("nesterov", &Sgd::nesterov, boolean(), "Nesterov's momentum.");
  const auto adam = optimiser<Adam>()
                        .field("betas", &Adam::betas, list(number(below(0, 1)), 2, 2),
                               "Decay of the averages of the gradient and of its square.")
                        .field("eps", &Adam::eps, number(above(0, 1)),
                               "Added to the root of the second average.");
  return TaggedKinds<Optim>("optim")
      .kind("sgd", sgd, "Stochastic gradient descent, with momentum where set.")
      .kind("adam", adam, "Adam; weight decay is part of the gradient.", &Adam::decoupled, false)
      .kind("adamw", adam, "Adam with decoupled weight decay.", &Adam::decoupled, true)
      .type();
}

Of<Schedule> schedule_type() {
  const Of<double> factor = number(between(0, 1));
  const auto linear = with_warmup<Linear>().field("final", &Linear::final, factor, kFinal);
  const auto cosine = with_warmup<Cosine>().field("final", &Cosine::final, factor, kFinal);
  const auto step = with_warmup<Step>()
                        .field("every", &Step::every, length(Zero::refused, Times::refused),
                               "Distance between two drops.")
                        .field("gamma", &Step::gamma, number(above(0, 1)), "Factor of a drop.");
  const auto multistep =
      with_warmup<Multistep>()
          .required("at", &Multistep::at, list(length(Zero::refused, Times::refused), 1, 1000),
                    "Where it drops, in increasing order.")
          .field("gamma", &Multistep::gamma, number(above(0, 1)), "Factor of a drop.");
  const auto one_cycle =
      schedule<OneCycle>()
          .field("rise", &OneCycle::rise,
                 number({.low = 0, .high = 1, .above = true, .below = true}),
                 "Share of the length in which it rises.")
          .field("start", &OneCycle::start, factor, "Factor of lr at the first update.")
          .field("final", &OneCycle::final, factor, kFinal);
  const auto wsd = with_warmup<Wsd>()
                       .required("decay", &Wsd::decay, length(Zero::allowed, Times::refused),
                                 "Length of the decay at the end.")
                       .field("final", &Wsd::final, factor, kFinal);
  return TaggedKinds<Schedule>("schedule")
      .kind("constant", with_warmup<Constant>(), "The same learning rate throughout.")
      .kind("linear", linear, "A straight line down.")
      .kind("cosine", cosine, "Half a cosine down.")
      .kind("step", step, "Drops at equal distances.")
      .kind("multistep", multistep, "Drops at given places.")
      .kind("one_cycle", one_cycle, "A cosine up to lr and another down.")
      .kind("wsd", wsd, "Warm-up, stable, then a linear decay.")
      .by_default("constant")
      .type();
}

}  // namespace trainer::config
