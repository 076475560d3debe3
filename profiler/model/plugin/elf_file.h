#pragma once

#include <optional>
#include <string>

namespace mptune::profiler {

/// Returns the bytes of an exported object of a shared library, read from the file: the library is not loaded, and pointers in the object
/// are not relocated. Returns nullopt if the library exports no object of this name. Throws Error (usage) if the file is truncated, for
/// another machine, or not a shared library.
[[nodiscard]] std::optional<std::string> read_exported_object(const std::string& path, const std::string& symbol);

}  // namespace mptune::profiler
