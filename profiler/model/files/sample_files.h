#pragma once

#include <string>

#include "profiler/model/files/torch_file.h"

namespace mptune::profiler {

/// Returns the tensors by name, of whatever shapes, of a file or folder as load_batch() takes it. Throws Error as load_batch() does.
[[nodiscard]] TensorDict read_samples(const std::string& path);

}  // namespace mptune::profiler
