#pragma once

#include <string>

namespace mptune::reports {

/// CLI11's help with lines of at most `columns`: descriptions go on below themselves, examples (lines that begin with blanks and have no
/// description) stay as they are. `description_column`: where descriptions begin.
[[nodiscard]] std::string wrap_help(const std::string& text, int description_column, int columns);

}  // namespace mptune::reports
