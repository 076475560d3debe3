#pragma once

#include <string>

#include "profiler/model/model.h"

namespace mptune {

/// Samples of the user's: `target`, and each input by its name; the only one of a model may be called `input`. From a dict of tensors saved
/// by Python's torch.save, a safetensors file, or a folder with a file NAME.npy of NumPy for each, which stays on the disk (map_npy_file).
/// Throws Error: missing, not such a file, tensors that are missing (lists those expected), that nobody takes or that do not fit `sample`.
/// `ignored`: a value that targets may have, beside the numbers of classes.
[[nodiscard]] Batch load_batch(const std::string& path, const SampleDescription& sample, std::int64_t ignored = LossChoice().ignore_index);

}  // namespace mptune
