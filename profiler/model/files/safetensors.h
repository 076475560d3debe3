#pragma once

#include <map>
#include <string>

#include "profiler/model/files/torch_file.h"

namespace mptune::profiler {

/// True if the file begins like a safetensors file: a length of eight bytes, then a JSON object.
[[nodiscard]] bool is_safetensors(const std::string& path);

/// True for types that the format can hold.
[[nodiscard]] bool safetensors_hold(at::ScalarType type);

/// Reads a safetensors file. Allocates no more than the file's size. Format (README of huggingface/safetensors):
/// length of the header in 8 bytes, little-endian; a JSON object {name: {dtype, shape, data_offsets}}, optionally with "__metadata__"; raw
/// bytes without gaps.
/// Throws Error: missing, truncated, an invalid header, unsupported element types, offsets that overlap, leave gaps or contradict shapes.
[[nodiscard]] TensorDict read_safetensors(const std::string& path);

/// Writes a safetensors file; replaces `path` only when complete. Tensors are aligned to their element size.
/// `metadata` goes into the header; by convention it maps further names of a tied tensor to the name that it is stored under.
/// Throws Error (environment), or Error (usage) for element types that the format lacks.
void write_safetensors(const std::string& path, const TensorDict& tensors, const std::map<std::string, std::string>& metadata = {});

}  // namespace mptune::profiler
