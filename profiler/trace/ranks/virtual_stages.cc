#include "profiler/trace/ranks/virtual_stages.h"

#include <algorithm>
#include <functional>
#include <set>

namespace mptune::profiler {
namespace {

// Returns places by device, from messages if they say it, else from the warm-ups, longest first. Empty: not known.
std::map<int, int> places_in_row(const std::map<int, WarmUp>& devices) {
  const bool known = std::ranges::any_of(devices, [](const auto& device) { return device.second.stage > 0; });
  std::set<int, std::greater<>> warm_ups;
  for (const auto& [device, warm] : devices) warm_ups.insert(warm.before_backward);
  std::map<int, int> places;
  for (const auto& [device, warm] : devices) {
    const auto longer = std::distance(warm_ups.begin(), warm_ups.find(warm.before_backward));
    places[device] = known ? warm.stage : static_cast<int>(longer);
    if (places[device] < 0) return {};
  }
  return places;
}

}  // namespace

std::optional<VirtualStages> virtual_stages_of(const std::map<int, WarmUp>& devices) {
  if (devices.empty()) return std::nullopt;
  VirtualStages result{.ranks = 1, .chunks = 1, .microbatches = 0, .place = places_in_row(devices)};
  for (const auto& [device, place] : result.place) result.ranks = std::max(result.ranks, place + 1);
  const int forwards = devices.begin()->second.forwards;
  for (const auto& [device, place] : result.place) {
    const WarmUp& warm = devices.at(device);
    if (warm.forwards != forwards || warm.before_backward >= forwards) return std::nullopt;
    if (place == result.ranks - 1) result.chunks = (warm.before_backward - 1) / result.ranks + 1;
  }
  if (result.ranks < 2 || result.chunks < 2 || forwards % result.chunks != 0) return std::nullopt;
  for (const auto& [device, place] : result.place) {
    const int expected = 2 * (result.ranks - place - 1) + (result.chunks - 1) * result.ranks + 1;
    if (devices.at(device).before_backward != expected) return std::nullopt;
  }
  result.microbatches = forwards / result.chunks;
  return result;
}

}  // namespace mptune::profiler
