#pragma once

#include <string>

namespace mptune {

/// Looks at a zip archive before LibTorch unpacks it: nothing of it is run, and no more allocated than its size, and 256 MiB for its
/// code, which may be compressed. Throws Error (usage) that says what the archive is instead of TorchScript: a checkpoint of torch.save,
/// something else, cut short, tensors that claim more than the file holds, or code nested so deeply that reading it would exhaust the
/// stack.
void check_script_archive(const std::string& path);

}  // namespace mptune
