#include "planner/search/space/alike_devices.h"

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Tells whether two links cost the same. Links that a profile does not know are alike.
class Links {
 public:
  explicit Links(const Profile& profile) : devices_(profile.devices.size()), links_(devices_ * devices_) {
    for (const LinkCost& link : profile.links) {
      LinkCost& cost = links_[as_index(link.source) * devices_ + as_index(link.destination)];
      cost = link;
      cost.source = cost.destination = 0;
    }
  }
  [[nodiscard]] bool same(int a, int b, int c, int d) const { return at(a, b) == at(c, d); }

 private:
  [[nodiscard]] const LinkCost& at(int source, int destination) const {
    return links_[as_index(source) * devices_ + as_index(destination)];
  }
  std::size_t devices_;
  std::vector<LinkCost> links_;
};

bool may_be_swapped(const Links& links, const std::vector<int>& indices, std::size_t a, std::size_t b) {
  const int x = indices[a];
  const int y = indices[b];
  if (!links.same(x, y, y, x)) return false;
  for (std::size_t other = 0; other < indices.size(); ++other) {
    if (other == a || other == b) continue;
    if (!links.same(x, indices[other], y, indices[other]) || !links.same(indices[other], x, indices[other], y)) return false;
  }
  return true;
}

}  // namespace

std::vector<int> alike_devices(const SearchSpace& space, const CostModel& cost, const std::vector<std::int64_t>& caps) {
  const std::vector<int> indices = cost.device_indices(space.devices);
  const Links links(cost.profile());
  const auto device_class = [&](std::size_t d) { return cost.profile().devices[as_index(indices[d])].device_class; };
  std::vector<int> alike;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    std::size_t first = 0;
    while (first < d && (device_class(first) != device_class(d) || caps[first] != caps[d] || !may_be_swapped(links, indices, first, d)))
      ++first;
    alike.push_back(static_cast<int>(first));
  }
  return alike;
}

}  // namespace mptune::planner
