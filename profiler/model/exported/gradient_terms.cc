#include "profiler/model/exported/gradient_terms.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace mptune::profiler {

bool adds_one_term(const c10::OperatorHandle& operation) {
  if (!operation.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return true;
  static constexpr std::array<std::string_view, 27> kKnown{
      "aten::adaptive_avg_pool2d",
      "aten::batch_norm",
      "aten::chunk",
      "aten::conv1d",
      "aten::conv2d",
      "aten::conv3d",
      "aten::conv_transpose2d",
      "aten::dropout",
      "aten::expand_as",
      "aten::feature_dropout",
      "aten::flatten",
      "aten::group_norm",
      "aten::layer_norm",
      "aten::linear",
      "aten::log_softmax",
      "aten::matmul",
      "aten::max_pool1d",
      "aten::max_pool2d",
      "aten::max_pool3d",
      "aten::narrow",
      "aten::pad",
      "aten::relu6",
      "aten::scaled_dot_product_attention",
      "aten::softmax",
      "aten::type_as",
      "aten::unflatten",
      "aten::upsample_bilinear2d",
  };
  return std::ranges::binary_search(kKnown, std::string_view(operation.schema().name()));
}

}  // namespace mptune::profiler
