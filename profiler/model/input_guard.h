#pragma once

#include <functional>

#include "mptune/profiler/model/layer.h"

namespace mptune {

/// Keeps a layer's forward from writing into its inputs, which belong to others. The first forward looks whether it does; only such layers
/// go on paying for copies. Use from one thread at a time; a copy knows what the original has found out.
class InputGuard {
 public:
  using Forward = std::function<Tensors(const Tensors&)>;

  /// The result of `forward`, which may be run twice and draws the same each time.
  [[nodiscard]] Tensors run(const Tensors& inputs, const RunContext& context, const Forward& forward);

 private:
  enum class Writes { unknown, no, yes };
  Tensors watched(const Tensors& inputs, const Forward& forward);

  Writes writes_ = Writes::unknown;
};

}  // namespace mptune
