#pragma once

#include <string>
#include <string_view>

namespace mptune {

/// What becomes of '\n' in a text that is made printable.
enum class LineEnds { shown, kept };

/// Returns text of other programs in a form that is safe to print. What would steer a terminal is spelled as JSON does: "\n", "\u001b",
/// "\u202e". These are control characters, DEL, the C1 controls, and the characters that change the direction of writing or end a line.
/// Bytes that are not UTF-8 become "\xff". Everything else stays as it is.
[[nodiscard]] std::string printable(std::string_view text, LineEnds line_ends = LineEnds::shown);

}  // namespace mptune
