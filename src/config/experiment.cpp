#include "config/experiment.h"

#include <type_traits>

namespace trainer::config {
namespace {

template <class Common, class Variant>
const Common* common_part(const Variant& variant) {
  return std::visit(
      [](const auto& kind) -> const Common* {
        if constexpr (std::is_base_of_v<Common, std::decay_t<decltype(kind)>>)
          return &kind;
        else
          return nullptr;
      },
      variant);
}

}  // namespace

const SourceCommon* images_of(const Source& source) { return common_part<SourceCommon>(source); }
const TokenSource* text_of(const Source& source) { return common_part<TokenSource>(source); }
const LanguageModel* language_model_of(const Model& model) {
  return common_part<LanguageModel>(model);
}
const ModelCommon& common(const Model& model) {
  return std::visit([](const auto& kind) -> const ModelCommon& { return kind; }, model);
}
ModelCommon& common(Model& model) {
  return std::visit([](auto& kind) -> ModelCommon& { return kind; }, model);
}

}  // namespace trainer::config
