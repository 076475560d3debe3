#include <charconv>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "planner/schedule/messages.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"

namespace mptune::planner {
namespace {

using Kind = MessageStep::Kind;

struct NamedMessage {
  int stage = 0;
  bool sent = false;
  bool gradient = false;
  int microbatch = 0;
};

// Reads "3SEND_F12"; nothing for any other cell.
std::optional<NamedMessage> named_message(std::string_view cell) {
  NamedMessage named;
  const char* const end = cell.data() + cell.size();
  const auto [name, no_stage] = std::from_chars(cell.data(), end, named.stage);
  constexpr std::size_t kLength = 6;
  if (no_stage != std::errc() || end - name <= static_cast<std::ptrdiff_t>(kLength)) return std::nullopt;
  const std::string_view kind(name, kLength);
  named.sent = kind.starts_with("SEND_");
  named.gradient = kind.ends_with("B");
  if (!(named.sent || kind.starts_with("RECV_")) || !(named.gradient || kind.ends_with("F"))) return std::nullopt;
  const auto [last, no_number] = std::from_chars(name + kLength, end, named.microbatch);
  if (no_number != std::errc() || last != end) return std::nullopt;
  return named;
}

// What an action reads from another device.
std::optional<int> read_by(const Action& action, const Plan& plan, const Messages& messages) {
  const bool forward = action.kind == ActionKind::forward;
  if (action.kind == ActionKind::backward_weight) return std::nullopt;
  const int flow = forward ? action.stage - 1 : action.stage;
  if (flow < 0 || flow >= static_cast<int>(messages.flows.size())) return std::nullopt;
  const Stage& front = plan.stages[as_index(flow)];
  const Stage& back = plan.stages[as_index(flow) + 1];
  if (device_of(front, action.microbatch) == device_of(back, action.microbatch)) return std::nullopt;
  return messages.id(flow, !forward, action.microbatch);
}

// Returns how many actions a cell names: "0F3" one, "(0F7;7B3)OVERLAP_F_B" two, all others none.
int actions_in(std::string_view cell) {
  if (cell.ends_with("OVERLAP_F_B")) return 2;
  const std::size_t letter = cell.find_first_not_of("0123456789");
  return letter != std::string_view::npos && letter + 1 < cell.size() &&
                 std::string_view("FBIW").find(cell[letter]) != std::string_view::npos &&
                 cell.find_first_not_of("0123456789-", letter + 1) == std::string_view::npos
             ? 1
             : 0;
}

std::string_view without_blanks(std::string_view cell) {
  constexpr std::string_view kBlank = " \t\r\"";
  const std::size_t first = cell.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view() : cell.substr(first, cell.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

std::optional<Messages> messages_from_csv(const std::string& text, const Plan& plan, const std::string& where) {
  Messages messages;
  messages.runtime = Runtime::torch;
  messages.microbatches = plan.num_microbatches();
  for (int stage = 0; stage + 1 < plan.num_stages(); ++stage) messages.flows.push_back({stage, stage + 1, true});
  messages.devices.resize(plan.devices.size());
  messages.in_order = true;
  bool any = false;
  std::set<std::pair<std::size_t, int>> posted;  // rank and message
  std::set<std::tuple<int, bool, int>> made;     // outputs and gradients: stage, gradient, micro-batch
  std::istringstream lines(text);
  std::string line;
  for (std::size_t d = 0; d < plan.devices.size() && std::getline(lines, line); ++d) {
    std::vector<MessageStep>& steps = messages.devices[d];
    int action = 0;
    const auto compute = [&](int count) {
      for (; count > 0 && as_index(action) < plan.actions[d].size(); --count, ++action) {
        if (const auto read = read_by(plan.actions[d][as_index(action)], plan, messages)) steps.push_back({Kind::wait, -1, {*read}});
        const Action& done = plan.actions[d][as_index(action)];
        if (done.kind != ActionKind::backward_weight) made.insert({done.stage, done.kind != ActionKind::forward, done.microbatch});
        steps.push_back({Kind::compute, action, {}});
      }
    };
    for (const std::string& cell : split(line, ',')) {
      const std::string_view word = without_blanks(cell);
      if (const auto named = named_message(word)) {
        const int flow = named->sent == named->gradient ? named->stage - 1 : named->stage;
        if (flow < 0 || flow >= static_cast<int>(messages.flows.size()) || named->microbatch < 0 ||
            named->microbatch >= messages.microbatches ||
            device_of(plan.stages[as_index(named->stage)], named->microbatch) != static_cast<int>(d) ||
            device_of(plan.stages[as_index(flow)], named->microbatch) == device_of(plan.stages[as_index(flow) + 1], named->microbatch))
          throw Error("'" + std::string(word.substr(0, 40)) + "' is no message between two ranks of the actions",
                      where + ", row " + std::to_string(d + 1), "write stages, and micro-batches, of actions in the same row");
        const int message = messages.id(flow, named->gradient, named->microbatch);
        if (!posted.insert({d, message}).second || (named->sent && !made.contains({named->stage, named->gradient, named->microbatch})))
          throw Error("'" + std::string(word.substr(0, 40)) + "' stands twice, or before the action that makes what it sends",
                      where + ", row " + std::to_string(d + 1), "list each message once, a send after its action");
        any = true;
        steps.push_back({Kind::post, -1, {message}});
      } else {
        compute(actions_in(word));
      }
    }
  }
  if (!any) return std::nullopt;
  return messages;
}

}  // namespace mptune::planner
