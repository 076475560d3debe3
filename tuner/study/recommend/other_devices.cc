#include <algorithm>
#include <optional>

#include "planner/plan/plan_error.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"
#include "tuner/study/recommend/kinds.h"

namespace mptune::tuner {
namespace {

constexpr int kMostOtherDevices = 8;
// Simulated actions that a search for other devices may take: about a second.
constexpr std::int64_t kOutlookActions = 6'000'000;

// Returns one measured link that stands for the links between all pairs of devices; nothing if a link is missing, shared or of another
// kind.
std::optional<LinkCost> common_link(const Profile& profile, const std::vector<int>& devices) {
  std::optional<LinkCost> common;
  for (const int source : devices) {
    for (const int destination : devices) {
      if (source == destination) continue;
      const auto found = std::ranges::find_if(
          profile.links, [&](const LinkCost& link) { return link.source == source && link.destination == destination; });
      if (found == profile.links.end() || found->medium >= 0) return std::nullopt;
      LinkCost link = *found;
      link.source = link.destination = 0;
      if (!common) common = link;
      // Latency and bandwidth may differ by measurement noise, so only the kind of cost is compared.
      if (common->curve.empty() != link.curve.empty()) return std::nullopt;
    }
  }
  return common;
}

// Returns the profile with copies of the first device appended, linked by the common link; nothing if the devices are not alike.
std::optional<Profile> with_more_devices(const Profile& profile, const SearchSpace& space, int count) {
  std::vector<int> listed;
  for (const std::string& name : space.devices) {
    const auto found = std::ranges::find(profile.devices, name, &ProfileDevice::name);
    if (found == profile.devices.end() ||
        found->device_class != profile.devices[as_index(listed.empty() ? found - profile.devices.begin() : listed.front())].device_class)
      return std::nullopt;
    listed.push_back(static_cast<int>(found - profile.devices.begin()));
  }
  const std::optional<LinkCost> link = common_link(profile, listed);
  if (!link) return std::nullopt;
  Profile more = profile;
  while (static_cast<int>(listed.size()) < count) {
    const int added = static_cast<int>(more.devices.size());
    ProfileDevice device = more.devices[as_index(listed.front())];
    device.name = "another:" + std::to_string(added);
    more.devices.push_back(device);
    for (const int other : listed) {
      for (const auto& [source, destination] : {std::pair(other, added), std::pair(added, other)}) {
        more.links.push_back(*link);
        more.links.back().source = source;
        more.links.back().destination = destination;
      }
    }
    listed.push_back(added);
  }
  return more;
}

std::optional<OtherDevices> best_on(const SearchSpace& space, const Profile& profile, int count) {
  SearchSpace other = space;
  const Profile* searched = &profile;
  std::optional<Profile> more;
  if (count > static_cast<int>(space.devices.size())) {
    more = with_more_devices(profile, space, count);
    if (!more) return std::nullopt;
    searched = &*more;
    for (std::size_t d = profile.devices.size(); d < more->devices.size(); ++d) other.devices.push_back(more->devices[d].name);
    // Nothing tells how many cores the added devices have.
    std::erase_if(other.variants, [](const ExecutionVariant& variant) { return variant.threads > 0; });
    if (!other.memory_bytes.empty()) other.memory_bytes.resize(other.devices.size(), other.memory_bytes.front());
  } else {
    other.devices.resize(as_index(count));
    if (!other.memory_bytes.empty()) other.memory_bytes.resize(other.devices.size());
  }
  other.whole_machine.clear();
  other.keep = 1;
  other.look_beyond = false;
  other.improved = nullptr;
  other.most_actions = kOutlookActions;
  const std::optional<SearchResult> result = planner::if_possible([&] { return search_plans(other, *searched); });
  if (!result || result->ranked.empty()) return std::nullopt;
  return OtherDevices{count, planner::parallelism_of(result->ranked.front().plan), result->ranked.front().prediction.step_s};
}

}  // namespace

std::vector<OtherDevices> other_devices(const SearchSpace& space, const Profile& profile) {
  std::vector<OtherDevices> found;
  if (!space.divisions.empty() || !space.stage_counts.empty() || !space.virtual_counts.empty() || !space.replicas.empty() ||
      !space.cuts.empty())
    return found;
  const int devices = static_cast<int>(space.devices.size());
  for (const int count : {devices / 2, 2 * devices}) {
    if (count < 1 || count > kMostOtherDevices) continue;
    if (const auto other = best_on(space, profile, count)) found.push_back(*other);
  }
  return found;
}

}  // namespace mptune::tuner
