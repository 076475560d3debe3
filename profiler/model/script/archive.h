#pragma once

#include <string>

namespace mptune::profiler {

/// Checks a TorchScript archive before LibTorch reads it. Runs no code of it, and allocates no more than its size and 256 MiB for code,
/// which may be compressed. Throws Error (usage) for a checkpoint of torch.save, the layout of PyTorch 1.0, another kind of file, a
/// truncated file, tensors that claim more bytes than the file has, and code whose brackets, blocks or chains of operators are so deep that
/// parsing or compiling it would overflow the stack.
void check_script_archive(const std::string& path);

}  // namespace mptune::profiler
