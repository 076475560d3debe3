#pragma once

#include <string>
#include <string_view>
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

/// The tensors in nested tuples, lists and dicts that Python's torch.save wrote, depth first in order, from the bytes of such a file. The
/// same rules hold; `where` names the bytes in errors.
[[nodiscard]] std::vector<at::Tensor> read_saved_tensors(std::string_view bytes, const std::string& where);

/// Writes a file that torch.load(path, weights_only=True) takes; it replaces `path` only when it is complete. Throws Error (environment).
void write_torch_file(const std::string& path, const TensorDict& tensors);

}  // namespace mptune
