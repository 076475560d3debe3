#pragma once

#include <string>

#include "profiler/model/model.h"

namespace mptune {

/// A dict of tensors saved by Python's torch.save: `target`, and each input by its name; the only one of a model may be called `input`.
/// Throws Error: missing, not such a file, tensors that are missing (lists those expected), that nobody takes or that do not fit `sample`.
/// `ignored`: a value that targets may have, beside the numbers of classes.
[[nodiscard]] Batch load_batch(const std::string& path, const SampleDescription& sample, std::int64_t ignored = LossChoice().ignore_index);

}  // namespace mptune
