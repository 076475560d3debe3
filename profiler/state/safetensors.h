#pragma once

#include <map>
#include <string>

#include "mptune/profiler/state/torch_file.h"

namespace mptune {

/// True if the file begins as a safetensors file does: eight bytes of a length, then a JSON object.
[[nodiscard]] bool is_safetensors(const std::string& path);

/// Reads a safetensors file: length of the header in 8 bytes, little-endian; a JSON object {name: {dtype, shape, data_offsets}} and
/// perhaps "__metadata__"; raw bytes without gaps. Allocates no more than the file's size. Throws Error: missing, truncated, a header that
/// is none, element types that are not ours, offsets that overlap, leave gaps or do not fit the shapes.
/// Format: the README of huggingface/safetensors.
[[nodiscard]] TensorDict read_safetensors(const std::string& path);

/// Writes one, each tensor at a multiple of its element's size; replaces `path` only when it is complete. `metadata` goes into the header:
/// by the format's convention, names that are left out because their tensor goes by another name, with that name. Throws Error
/// (environment), Error (usage) for element types that the format does not have.
void write_safetensors(const std::string& path, const TensorDict& tensors, const std::map<std::string, std::string>& metadata = {});

}  // namespace mptune
