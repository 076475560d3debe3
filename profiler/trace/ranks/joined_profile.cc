#include "profiler/trace/ranks/joined_profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

class Join {
 public:
  Join(const std::vector<HostProfile>& hosts, const std::vector<std::string>& devices, const std::vector<RankLink>& links,
       const std::vector<RankLink>& direct)
      : hosts_(hosts), links_(links), direct_(direct) {
    joined_ = hosts.at(0).profile;
    joined_.classes.clear();
    joined_.links.clear();
    joined_.operators.clear();
    joined_.devices.assign(devices.size(), {});
    joined_.fingerprint.devices = devices;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      index_[devices[d]] = static_cast<int>(d);
      ranks_.push_back(parse_device(devices[d]).rank);
    }
  }

  Profile run() && {
    for (const HostProfile& host : hosts_) add(host);
    link_ranks();
    joined_.co_running_slowdown = mean_slowdown();
    return std::move(joined_);
  }

 private:
  void add(const HostProfile& host) {
    const Profile& profile = host.profile;
    if (profile.fingerprint.model != joined_.fingerprint.model || profile.layers.size() != joined_.layers.size())
      throw Error("the ranks have different models", host.devices.at(0), "give all ranks the same files", ExitCode::environment);
    const auto first_class = static_cast<int>(joined_.classes.size());
    for (DeviceClass added : profile.classes) {
      if (&host != &hosts_.front()) added.name += " of rank " + std::to_string(parse_device(host.devices.at(0)).rank);
      if (added.variant_of >= 0) added.variant_of += first_class;
      joined_.classes.push_back(std::move(added));
    }
    for (LayerOperator added : profile.operators) {
      added.device_class += first_class;
      joined_.operators.push_back(added);
    }
    for (std::size_t d = 0; d < host.devices.size(); ++d) {
      ProfileDevice device = profile.devices.at(d);
      device.name = host.devices[d];
      device.device_class += first_class;
      joined_.devices[as_index(index_.at(device.name))] = device;
    }
    add_links(host);
  }

  void add_links(const HostProfile& host) {
    const auto index_of = [&](int device) { return index_.at(host.devices.at(as_index(device))); };
    for (LinkCost link : host.profile.links) {
      link.source = index_of(link.source);
      link.destination = index_of(link.destination);
      if (rank_of(link.source) == rank_of(link.destination)) joined_.links.push_back(link);
    }
  }

  void link_ranks() {
    const auto count = static_cast<int>(joined_.devices.size());
    for (int source = 0; source < count; ++source)
      for (int destination = 0; destination < count; ++destination)
        if (rank_of(source) != rank_of(destination)) joined_.links.push_back(between(source, destination));
  }

  [[nodiscard]] static const RankLink* find(const std::vector<RankLink>& links, int from, int to) {
    const auto link = std::ranges::find_if(links, [&](const RankLink& each) { return each.from == from && each.to == to; });
    return link == links.end() ? nullptr : &*link;
  }

  [[nodiscard]] LinkCost between(int source, int destination) const {
    const auto ranks = 1 + *std::ranges::max_element(ranks_);
    if (const RankLink* link = find(direct_, source, destination)) {
      LinkCost cost{source, destination, link->latency_s, link->bytes_per_second};
      cost.communicator_bytes = link->communicator_bytes;
      // The numbers of these media follow those of the ranks.
      cost.medium = 2 * ranks * ranks + medium_of(*link, static_cast<int>(ranks_.size()));
      return cost;
    }
    const int from = rank_of(source), to = rank_of(destination);
    const RankLink* link = find(links_, from, to);
    if (link == nullptr)
      throw Error("the link between ranks " + std::to_string(from) + " and " + std::to_string(to) + " was not measured", "ranks",
                  "make sure that all ranks run the same build of mptune", ExitCode::internal);
    LinkCost cost{source, destination, link->latency_s, link->bytes_per_second};
    cost.medium = medium_of(*link, ranks);
    const auto device = [this](int index) -> const ProfileDevice& { return joined_.devices[as_index(index)]; };
    if (is_gpu(device(source))) add_copy(device(source).to_host, cost);
    if (is_gpu(device(destination))) add_copy(device(destination).from_host, cost);
    return cost;
  }

  [[nodiscard]] static bool is_gpu(const ProfileDevice& device) { return device_kind(device.name) == DeviceSpec::Kind::cuda; }
  static void add_copy(const HostCopies& copies, LinkCost& cost) {
    if (copies.bytes_per_second <= 0) return;
    cost.latency_s += copies.latency_s;
    cost.bytes_per_second = 1 / (1 / cost.bytes_per_second + 1 / copies.bytes_per_second);
  }

  /// `ends`: number of ranks, or of devices.
  [[nodiscard]] static int medium_of(const RankLink& link, int ends) {
    const bool first = link.from < link.to || link.shared;
    const int low = std::min(link.from, link.to), high = std::max(link.from, link.to);
    return 2 * (low * ends + high) + (first ? 0 : 1);
  }

  [[nodiscard]] double mean_slowdown() const {
    double sum = 0;
    for (const HostProfile& host : hosts_) sum += std::log(std::max(1e-9, host.profile.co_running_slowdown));
    return std::exp(sum / static_cast<double>(hosts_.size()));
  }

  [[nodiscard]] int rank_of(int device) const { return ranks_[as_index(device)]; }

  const std::vector<HostProfile>& hosts_;
  const std::vector<RankLink>&links_, &direct_;
  Profile joined_;
  std::map<std::string, int> index_;  ///< by device name
  std::vector<int> ranks_;            ///< by device
};

}  // namespace

Profile join_profiles(const std::vector<HostProfile>& hosts, const std::vector<std::string>& devices, const std::vector<RankLink>& links,
                      const std::vector<RankLink>& direct) {
  return Join(hosts, devices, links, direct).run();
}

}  // namespace mptune::profiler
