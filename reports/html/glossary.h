#pragma once

#include <string>

namespace mptune::reports {

/// Returns a list of the words of docs/glossary.md that a reader of a report meets, as far as `markup` uses them; "" for none.
[[nodiscard]] std::string glossary_of(const std::string& markup);

}  // namespace mptune::reports
