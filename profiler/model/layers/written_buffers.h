#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "profiler/model/layers/layer.h"

namespace mptune::profiler {

/// Buffers that a layer's forward writes: running statistics of instance norms, moving averages, vectors of spectral norms. They change
/// from micro-batch to micro-batch, as in a loop over them. A recomputation begins with the values that its micro-batch's forward found and
/// leaves the buffers as they are; an evaluation begins with the present values and leaves them as they are, too. Writes are detected by
/// version counters. Use from one thread at a time.
class WrittenBuffers {
 public:
  /// Runs `forward` and returns its result. `buffers`: all that it may write, the same at every call. Throws Error if a forward with
  /// context.recomputed is the first to write a buffer that earlier ones left alone: its recomputation could not begin with the same
  /// values.
  [[nodiscard]] Tensors run(const std::vector<NamedTensor>& buffers, const RunContext& context, const std::function<Tensors()>& forward);
  /// Undoes what the running forward has written so far, because it begins again. Call it within `forward`.
  void restart();

  /// Returns a buffer that a forward has written, "" if there is none so far.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  /// A buffer as it was when the running forward began. `value` is undefined if forwards are known not to write it.
  struct Before {
    at::Tensor buffer, value;
    std::int64_t version = 0;
  };
  void begin(const std::vector<NamedTensor>& buffers);
  void take_found(int microbatch);
  void learn_writes(const std::vector<NamedTensor>& buffers, const RunContext& context);

  std::vector<bool> written_;  ///< per buffer: a forward has written it; empty before the first forward
  std::string name_;
  std::vector<Before> before_;
  std::map<int, Tensors> found_;  ///< by micro-batch that will be recomputed: values before its forward, of written buffers
};

}  // namespace mptune::profiler
