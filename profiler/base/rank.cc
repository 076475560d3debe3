#include "profiler/base/rank.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/text.h"

namespace mptune {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int number(const char* name, int first, int last, int otherwise) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  const auto value = integer(text);
  if (!value || *value < first || *value > last)
    throw Error(std::string(name) + " is '" + text + "', not a number from " + std::to_string(first) + " to " + std::to_string(last),
                "environment", "start the ranks with torchrun or --ranks, which set it");
  return static_cast<int>(*value);
}

}  // namespace

RankPlace rank_place() {
  constexpr int kMostPorts = 65535;
  RankPlace place;
  if (variable("WORLD_SIZE").empty()) return place;
  place.ranks = number("WORLD_SIZE", 1, DeviceSpec::kMostRanks, 1);
  place.rank = number("RANK", 0, place.ranks - 1, 0);
  if (place.ranks == 1) return place;
  place.address = variable("MASTER_ADDR");
  place.port = number("MASTER_PORT", 1, kMostPorts, 0);
  if (place.address.empty() || place.port == 0)
    throw Error("WORLD_SIZE is set, but not MASTER_ADDR and MASTER_PORT", "environment",
                "start the ranks with torchrun or --ranks, which set them");
  place.store_runs = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  place.attempt = number("TORCHELASTIC_RESTART_COUNT", 0, 1 << 20, 0);
  place.token = variable("MPTUNE_RANKS_TOKEN");
  if (place.token.empty()) place.token = variable("TORCHELASTIC_RUN_ID");
  return place;
}

int ranks_of(const std::vector<std::string>& devices) {
  int ranks = 1;
  for (const std::string& name : devices)
    if (const auto device = find_device(name)) ranks = std::max(ranks, device->rank + 1);
  return ranks;
}

}  // namespace mptune
