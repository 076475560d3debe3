#pragma once

#include <optional>
#include <string>

namespace mptune {

/// The bytes of an exported object of a shared library, as they are in the file: nothing of the library is loaded or run, and pointers
/// inside the object are not filled in. Nothing where the library exports no such object. Throws Error (usage): cut short, for another
/// machine, a program or an object file.
[[nodiscard]] std::optional<std::string> read_exported_object(const std::string& path, const std::string& symbol);

}  // namespace mptune
