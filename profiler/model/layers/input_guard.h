#pragma once

#include <functional>

#include "profiler/model/layers/layer.h"

namespace mptune::profiler {

/// Keeps a layer's forward from modifying its inputs. The first forward detects writes; layers that write get copies from then on. Later
/// forwards are watched by version counters. Use from one thread at a time. Copies of this object share what was detected.
class InputGuard {
 public:
  using Forward = std::function<Tensors(const Tensors&)>;

  /// Runs `forward` and returns its result. May run it twice, with the same random numbers. Throws Error if a forward writes to its input
  /// after earlier ones did not: the input is then overwritten. The next forward gets a copy.
  [[nodiscard]] Tensors run(const Tensors& inputs, const RunContext& context, const Forward& forward);

 private:
  enum class Writes { unknown, no, yes };
  Tensors watched(const Tensors& inputs, const Forward& forward);
  Tensors counted(const Tensors& inputs, const RunContext& context, const Forward& forward);

  Writes writes_ = Writes::unknown;
};

}  // namespace mptune::profiler
