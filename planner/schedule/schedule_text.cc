#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"

namespace mptune::planner {
namespace {

[[noreturn]] void refuse(std::string_view word, const std::string& where) {
  const std::string shown(word.substr(0, 40));
  std::string remedy = "write stage, F, B, I or W, and micro-batch, like 0F3; fused weight gradients like 0W2-5";
  if (word.find("BW") != std::string_view::npos) remedy = "this is the form before torch 2.6: write I for its B, and B for its BW";
  if (word.find_first_of("fbiw") != std::string_view::npos) remedy = "write the letter as a capital, like 0F3";
  throw Error("'" + shown + "' is not an action", where, remedy);
}

int number_of(std::string_view digits, std::string_view word, const std::string& where) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || value < 0) refuse(word, where);
  return value;
}

Action action_from(std::string_view word, const std::string& where) {
  const std::size_t letter = word.find_first_of("FBIW");
  if (letter == std::string_view::npos || word.front() == '-') refuse(word, where);
  Action action{number_of(word.substr(0, letter), word, where), static_cast<ActionKind>(word[letter])};
  const std::string_view which = word.substr(letter + 1);
  const std::size_t hyphen = which.find('-');
  action.microbatch = number_of(which.substr(0, hyphen), word, where);
  if (hyphen == std::string_view::npos) return action;
  action.further = number_of(which.substr(hyphen + 1), word, where) - action.microbatch;
  if (action.further < 1 || action.kind != ActionKind::backward_weight) refuse(word, where);
  return action;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\"";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// True for actions that torch lists and that follow from the plan here (copies and reductions), such as "3SEND_F0" and "2UNSHARD".
bool follows(std::string_view word) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t name = word.find_first_not_of(kDigits);
  if (name == 0 || name == std::string_view::npos) return false;
  const std::string_view rest = word.substr(name);
  const std::string_view kind = rest.substr(0, rest.find_last_not_of(kDigits) + 1);
  constexpr std::string_view kCopies[] = {"SEND_F", "RECV_F", "SEND_B", "RECV_B"};
  constexpr std::string_view kShards[] = {"UNSHARD", "RESHARD", "REDUCE_GRAD"};
  if (std::ranges::find(kCopies, kind) != std::end(kCopies)) return kind.size() < rest.size();
  return std::ranges::find(kShards, kind) != std::end(kShards);
}

// Appends the actions of one cell of torch's CSV, none or several.
void add_cell(std::string_view cell, const std::string& where, std::vector<Action>& actions) {
  constexpr std::string_view kTogether = ")OVERLAP_F_B";
  if (cell.empty() || cell == "None" || follows(cell)) return;
  if (cell.front() != '(' || !cell.ends_with(kTogether)) {
    actions.push_back(action_from(cell, where));
    return;
  }
  std::string_view parts = cell.substr(1, cell.size() - kTogether.size() - 1);
  const std::size_t middle = parts.find(';');
  if (middle == std::string_view::npos) refuse(cell, where);
  actions.push_back(action_from(parts.substr(0, middle), where));
  actions.push_back(action_from(parts.substr(middle + 1), where));
}

std::vector<Action> cells_of(std::string_view line, const std::string& where) {
  std::vector<Action> actions;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(','), line.size());
    add_cell(trimmed(line.substr(0, end)), where, actions);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return actions;
}

std::vector<Action> split_actions(std::string_view text, const std::string& where) {
  std::vector<Action> actions;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = trimmed(text.substr(0, end));
    if (!word.empty()) actions.push_back(action_from(word, where));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return actions;
}

}  // namespace

std::string to_text(const Action& action) {
  std::string text = std::to_string(action.stage) + static_cast<char>(action.kind) + std::to_string(action.microbatch);
  if (action.further > 0) text += '-' + std::to_string(action.last_microbatch());
  return text;
}

std::string to_text(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += ' ';
    text += to_text(action);
  }
  return text;
}

std::vector<Action> actions_from_text(const std::string& text, const std::string& where) {
  return split_actions(text, where);
}

std::vector<std::vector<Action>> schedule_from_csv(const std::string& text, const std::string& where) {
  std::vector<std::vector<Action>> rows;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) rows.push_back(cells_of(line, where + ", row " + std::to_string(rows.size() + 1)));
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
  if (rows.empty()) throw Error("no actions", where, "write a row of actions per device, like 0F0,0F1,0B0,0B1");
  return rows;
}

std::string schedule_to_csv(const std::vector<std::vector<Action>>& actions) {
  std::string text;
  for (const std::vector<Action>& row : actions) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += ',';
      text += to_text(row[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace mptune::planner
