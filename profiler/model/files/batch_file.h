#pragma once

#include <string>

#include "profiler/model/layers/model.h"

namespace mptune {

/// Loads the user's samples: `target`, and each input by its name; a model's only input may be called `input`. They come from a dict of
/// tensors saved by Python's torch.save, a safetensors file, or a folder with a NumPy file NAME.npy for each, which stays on the disk
/// (map_npy_file). Throws Error if the file is missing or of another kind, or if tensors are missing (lists those expected), are not taken
/// by anything, or do not fit `sample`. `ignored`: a value that targets may have, beside the numbers of classes.
[[nodiscard]] Batch load_batch(const std::string& path, const SampleDescription& sample, std::int64_t ignored = LossChoice().ignore_index);

}  // namespace mptune
