#pragma once

#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>

namespace mptune::testing {

/// Counts the products that LibTorch computes while this object lives, in all threads: forward, backward and weight gradients.
/// One object at a time.
class ProductCounter {
 public:
  using Counts = std::map<std::string, int>;

  ProductCounter()
      : handle_(at::addGlobalCallback(at::RecordFunctionCallback(&count).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {}
  ~ProductCounter() { at::removeCallback(handle_); }
  ProductCounter(const ProductCounter&) = delete;
  ProductCounter& operator=(const ProductCounter&) = delete;

  /// Since the last call, or since this object began. Requires: no thread computes.
  [[nodiscard]] static Counts take() {
    Counts counts;
    for (std::size_t i = 0; i < kNames.size(); ++i)
      if (const int found = found_[i].exchange(0); found > 0) counts[kNames[i]] = found;
    return counts;
  }

 private:
  // One call of convolution_backward makes one or both of the first two, the second for a number of samples.
  static constexpr std::array kNames{"input gradient of a convolution",
                                     "weight gradient of a convolution",
                                     "samples in weight gradients of convolutions",
                                     "aten::_convolution",
                                     "aten::mm",
                                     "aten::addmm",
                                     "aten::addmm_",
                                     "aten::bmm",
                                     "aten::baddbmm",
                                     "aten::embedding",
                                     "aten::embedding_dense_backward",
                                     "aten::mkldnn_rnn_layer",
                                     "aten::mkldnn_rnn_layer_backward",
                                     "aten::_scaled_dot_product_flash_attention_for_cpu",
                                     "aten::_scaled_dot_product_flash_attention_for_cpu_backward"};
  static inline std::array<std::atomic<int>, kNames.size()> found_{};

  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
    if (std::strcmp(function.name(), "aten::convolution_backward") == 0) {
      // oneDNN computes the weight's gradient with that of the bias, asked for or not.
      const auto wanted = function.inputs().back().toBoolList();
      found_[0] += wanted.get(0);
      const bool of_weight = wanted.get(1) || wanted.get(2);
      found_[1] += of_weight;
      if (of_weight) found_[2] += static_cast<int>(function.inputs().front().toTensor().size(0));
    }
    for (std::size_t i = 3; i < kNames.size(); ++i) found_[i] += std::strcmp(function.name(), kNames[i]) == 0;
    return nullptr;
  }

  at::CallbackHandle handle_;
};

}  // namespace mptune::testing
