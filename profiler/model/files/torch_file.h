#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace mptune::profiler {

/// Tensors by name, in the file's order.
using TensorDict = std::vector<std::pair<std::string, at::Tensor>>;

/// Reads a dict of tensors of torch.save (zip layout, PyTorch 1.6 and newer). Runs no code of the file and allocates no more than its size.
/// Tensors that share a storage in the file share memory. Throws Error: missing, truncated, another format, not a dict of tensors.
[[nodiscard]] TensorDict read_torch_file(const std::string& path);

/// Returns the tensors in nested tuples, lists and dicts, depth first in order, from the bytes of a file of torch.save, by the same rules.
/// `where` names the bytes in errors.
[[nodiscard]] std::vector<at::Tensor> read_saved_tensors(std::string_view bytes, const std::string& where);

/// True for types that write_torch_file() can write.
[[nodiscard]] bool torch_files_hold(at::ScalarType type);
/// Writes a file for torch.load(path, weights_only=True); replaces `path` only when complete. Throws Error (environment).
void write_torch_file(const std::string& path, const TensorDict& tensors);

}  // namespace mptune::profiler
