#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace mptune {

/// Tensors by name, in the file's order.
using TensorDict = std::vector<std::pair<std::string, at::Tensor>>;

/// Reads a dict of tensors that Python's torch.save wrote (the zip layout, PyTorch 1.6 and newer). Runs no code of the file and allocates
/// no more than its size. Tensors that share a storage in the file share memory here. Throws Error: missing, truncated, not such a file,
/// not a dict of tensors.
[[nodiscard]] TensorDict read_torch_file(const std::string& path);

/// Writes a file that torch.load(path, weights_only=True) takes; it replaces `path` only when it is complete. Throws Error (environment).
void write_torch_file(const std::string& path, const TensorDict& tensors);

}  // namespace mptune
