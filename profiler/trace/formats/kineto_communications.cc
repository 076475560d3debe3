#include "profiler/trace/formats/kineto_communications.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "profiler/base/text.h"
#include "profiler/trace/formats/kineto_rows.h"
#include "profiler/trace/values/kernel_names.h"

namespace mptune::profiler {
namespace {

constexpr std::string_view kHostRow = "record_param_comms";
constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

// True for rows that wait for communications or make groups, and name no communication of their own.
bool is_no_communication(std::string_view operation) {
  constexpr std::array<std::string_view, 5> kOthers = {"", "wait", "init", "coalesced", "nccl:coalesced"};
  return std::ranges::find(kOthers, operation) != kOthers.end();
}

Communication communication_of(const ChromeEvent& event) {
  Communication one;
  one.operation = event[ChromeWord::communication];
  if (one.operation == "send") one.kind = Communication::Kind::send;
  if (one.operation == "recv") one.kind = Communication::Kind::receive;
  one.members = ranks_in(event[ChromeWord::group_ranks]);
  one.group = event[ChromeWord::group] + " " + event[ChromeWord::group_ranks];
  one.sequence = event[ChromeArg::sequence].value_or(-1);
  const ChromeArg peer = one.kind == Communication::Kind::send ? ChromeArg::destination_rank : ChromeArg::source_rank;
  if (one.kind != Communication::Kind::collective) {
    const std::int64_t rank = event[peer].value_or(-1);
    one.peer = rank >= 0 && rank < kMostRanks ? static_cast<int>(rank) : -1;
  }
  const bool takes = one.kind == Communication::Kind::receive;
  const std::int64_t elements = event[takes ? ChromeArg::elements_out : ChromeArg::elements_in].value_or(0);
  one.bytes = std::clamp<std::int64_t>(elements, 0, kMostElements) * bytes_of_type(event[ChromeWord::element_type]);
  return one;
}

constexpr std::string_view kRange = "nccl:";

// Reads "nccl:send 0->1" or "nccl:recv 1<-0", with numbers in the group.
void read_message(std::string_view text, Communication& one) {
  const std::size_t arrow = text.find_first_of("<-");
  const std::size_t blank = text.find(' ');
  if (arrow == std::string_view::npos || blank == std::string_view::npos || blank > arrow || arrow + 2 > text.size()) return;
  const auto own = integer(text.substr(blank + 1, arrow - blank - 1)), peer = integer(text.substr(arrow + 2));
  const auto is_rank = [](const auto& rank) { return rank && *rank >= 0 && *rank < kMostRanks; };
  if (!is_rank(own) || !is_rank(peer)) return;
  one.own = static_cast<int>(*own);
  one.peer = static_cast<int>(*peer);
}

Communication communication_of_range(std::string_view name) {
  Communication one;
  one.described = false;
  name.remove_prefix(kRange.size());
  one.operation = name.substr(0, name.find(' '));
  if (one.operation == "send") one.kind = Communication::Kind::send;
  if (one.operation == "recv") one.kind = Communication::Kind::receive;
  if (one.kind != Communication::Kind::collective) read_message(name, one);
  return one;
}

// Returns the communications of a launch: their ranges began since the launch before. A further kernel in the last range has that range's
// communication.
template <class Range>
std::vector<Communication> named_by(const std::vector<Range>& ranges, std::size_t& next, Nanoseconds launched) {
  std::vector<Communication> all;
  for (; next < ranges.size() && ranges[next].start <= launched; ++next) all.push_back(ranges[next].communication);
  if (all.empty() && next > 0 && launched <= ranges[next - 1].end) all.push_back(ranges[next - 1].communication);
  return all;
}

}  // namespace

void KinetoCommunications::take(const ChromeEvent& event) {
  if (event.phase == "X" && event.name.starts_with(kRange) && !is_no_communication(event.name) && event.time &&
      event.category != "gpu_user_annotation" && event[ChromeWord::communication].empty()) {
    ranges_of_thread_[event.process + "/" + event.thread].push_back(
        {*event.time, *event.time + event.duration.value_or(Nanoseconds{0}), communication_of_range(event.name)});
    return;
  }
  if (is_no_communication(event[ChromeWord::communication]) || event.phase != "X") return;
  const Communication one = communication_of(event);
  if (kineto_row(event) == KinetoRow::kernel) {
    const std::int64_t correlation = event[ChromeArg::correlation].value_or(-1);
    if (correlation > 0) of_kernel_.try_emplace(correlation, one);
  } else if (event.name == kHostRow && event.time) {
    of_thread_[event.process + "/" + event.thread].push_back({*event.time, one});
  }
}

void KinetoCommunications::note_launch(std::int64_t correlation, const std::string& thread, Nanoseconds start, int launch) {
  launches_.push_back({correlation, thread, start, launch});
}

std::vector<Communication> KinetoCommunications::by_launch() const {
  std::unordered_map<std::string, std::vector<HostRow>> rows = of_thread_;
  for (auto& [thread, of_thread] : rows) std::ranges::stable_sort(of_thread, {}, &HostRow::start);
  std::unordered_map<std::string, std::vector<NamedRange>> ranges = ranges_of_thread_;
  for (auto& [thread, of_thread] : ranges) std::ranges::stable_sort(of_thread, {}, &NamedRange::start);
  std::unordered_map<std::string, std::size_t> next_row, next_range;
  std::vector<NotedLaunch> launches = launches_;
  std::ranges::stable_sort(launches, {}, &NotedLaunch::start);
  std::vector<Communication> all;
  for (const NotedLaunch& launch : launches) {
    const auto own = of_kernel_.find(launch.correlation);
    const auto found = rows.find(launch.thread);
    std::size_t& next = next_row[launch.thread];
    const std::size_t count = found == rows.end() ? 0 : found->second.size(), before = all.size();
    for (; next < count && found->second[next].start <= launch.start; ++next)
      if (own == of_kernel_.end()) all.push_back(found->second[next].communication);
    if (own != of_kernel_.end()) all.push_back(own->second);
    const std::vector<Communication> named = named_by(ranges[launch.thread], next_range[launch.thread], launch.start);
    if (all.size() == before) all.insert(all.end(), named.begin(), named.end());
    for (std::size_t i = before; i < all.size(); ++i) all[i].event = launch.launch;
  }
  return all;
}

std::vector<int> ranks_in(const std::string& text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {};
  std::vector<int> ranks;
  for (const std::string& part : split(std::string_view(text).substr(1, text.size() - 2), ',')) {
    const auto rank = integer(std::string_view(part).substr(std::min(part.find_first_not_of(' '), part.size())));
    if (!rank || *rank < 0 || *rank >= kMostRanks) return {};
    ranks.push_back(static_cast<int>(*rank));
  }
  return ranks;
}

std::int64_t bytes_of_type(const std::string& name) {
  static const std::unordered_map<std::string_view, std::int64_t> sizes = {
      {"Byte", 1},   {"Char", 1},   {"Bool", 1},        {"Short", 2},          {"Half", 2},          {"BFloat16", 2},
      {"Int", 4},    {"Float", 4},  {"Double", 8},      {"Long", 8},           {"ComplexFloat", 8},  {"UInt16", 2},
      {"UInt32", 4}, {"UInt64", 8}, {"ComplexHalf", 4}, {"ComplexDouble", 16}, {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};
  const auto found = sizes.find(name);
  return found == sizes.end() ? 0 : found->second;
}

}  // namespace mptune::profiler
