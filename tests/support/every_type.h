#pragma once

#include <ATen/ATen.h>

#include "profiler/model/files/torch_file.h"

namespace mptune::testing {

/// A tensor of each element type, and a scalar, an empty and a transposed tensor: state dicts must preserve them all.
inline profiler::TensorDict every_type() {
  profiler::TensorDict dict;
  for (const auto type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool})
    dict.emplace_back(c10::toString(type), at::arange(6).view({2, 3}).to(type));
  dict.emplace_back("scalar", at::scalar_tensor(5, at::kLong));
  dict.emplace_back("empty", at::empty({0, 3}));
  dict.emplace_back("strided", at::arange(12.0).view({3, 4}).t());
  return dict;
}

}  // namespace mptune::testing
