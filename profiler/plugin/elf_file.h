#pragma once

#include <optional>
#include <string>

namespace mptune::profiler {

/// Bytes of an exported object of a shared library, read from the file: the library is not loaded, and pointers in the object are not
/// relocated. nullopt if the library exports no such object. Throws Error (usage): truncated, for another machine, not a shared library.
[[nodiscard]] std::optional<std::string> read_exported_object(const std::string& path, const std::string& symbol);

}  // namespace mptune::profiler
