#include "profiler/base/library_message.h"

#include <string_view>

namespace mptune {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

// Removes "[enforce fail at inline_container.cc:149] . " or "[/pytorch/third_party/gloo/pair.cc:547] ".
std::string_view without_place_in_front(std::string_view text) {
  const auto end = text.find("] ");
  const bool place =
      text.starts_with('[') && end != std::string_view::npos &&
      (text.substr(0, end).find(".cc:") != std::string_view::npos || text.substr(0, end).find(".cpp:") != std::string_view::npos ||
       text.substr(0, end).find(".h:") != std::string_view::npos);
  if (!place) return text;
  text.remove_prefix(end + 2);
  if (text.starts_with(". ")) text.remove_prefix(2);
  return text;
}

// Returns what follows the assertion in `condition INTERNAL ASSERT FAILED at "file":7, please report a bug to PyTorch. What happened`.
std::string_view without_assertion(std::string_view text) {
  if (text.find("INTERNAL ASSERT FAILED") == std::string_view::npos) return text;
  constexpr std::string_view report = "please report a bug to PyTorch.";
  const auto said = text.find(report);
  const std::string_view rest = said == std::string_view::npos ? "" : trimmed(text.substr(said + report.size()));
  return rest.empty() ? "a check inside the library failed" : rest;
}

}  // namespace

std::string library_message(const std::string& text) {
  std::string_view line = trimmed(text);
  line = trimmed(line.substr(0, line.find('\n')));
  line = trimmed(line.substr(0, line.find("Exception raised from")));
  line = without_assertion(without_place_in_front(line));
  return line.empty() ? "no reason is given" : std::string(line);
}

}  // namespace mptune
