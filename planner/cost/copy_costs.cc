#include "planner/cost/copy_costs.h"

#include <algorithm>
#include <utility>

#include "planner/plan/plan_error.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

// The curve is made of lines from the latency at 0 bytes through the points; beyond the last point the last line continues.
double on_curve(const LinkCost& link, std::int64_t bytes) {
  LinkPoint low{0, std::min(link.latency_s, link.curve.front().seconds)};
  LinkPoint high = link.curve.front();
  for (std::size_t k = 1; k < link.curve.size() && bytes > high.bytes; ++k) {
    low = high;
    high = link.curve[k];
  }
  const double share = static_cast<double>(bytes - low.bytes) / static_cast<double>(high.bytes - low.bytes);
  const double seconds = low.seconds + (high.seconds - low.seconds) * share;
  return share > 1 ? std::max(seconds, high.seconds) : seconds;
}

bool ascends(const std::vector<LinkPoint>& curve) {
  for (std::size_t k = 0; k < curve.size(); ++k)
    if (curve[k].bytes < 1 || !(curve[k].seconds >= 0) || (k > 0 && curve[k].bytes <= curve[k - 1].bytes)) return false;
  return true;
}

void require_hosts(const Profile& profile) {
  const Network& network = profile.network;
  bool known = network.host_of.size() == profile.devices.size();
  for (const int host : network.host_of) known = known && host >= 0 && as_index(host) < network.within.size();
  if (!known) throw Error("the network does not say on which host each device is", profile.model, "give another topology");
}

bool on_one_host(const Network& network, int source, int destination) {
  return network.host_of[as_index(source)] == network.host_of[as_index(destination)];
}

const NetworkLink& link_of(const Network& network, int source, int destination) {
  return on_one_host(network, source, destination) ? network.within[as_index(network.host_of[as_index(source)])] : network.between;
}

}  // namespace

CopyCosts::CopyCosts(const Profile& profile)
    : model_(profile.model), devices_(profile.devices), network_(profile.network), senders_copy_(profile.runtime == Runtime::mptune) {
  if (!network_.empty()) {
    require_hosts(profile);
    return;
  }
  link_of_.assign(devices_.size() * devices_.size(), -1);
  for (const LinkCost& link : profile.links) add_link(link);
}

void CopyCosts::add_link(const LinkCost& link) {
  const auto listed = [&](int device) { return device >= 0 && as_index(device) < devices_.size(); };
  if (!listed(link.source) || !listed(link.destination))
    throw Error("the profile has a link of a device it does not list", model_, "profile the model again");
  const auto source = as_index(link.source), destination = as_index(link.destination);
  if (!ascends(link.curve))
    throw Error("the copy times of the link from " + devices_[source].name + " to " + devices_[destination].name +
                    " are not times by ascending sizes",
                model_, "profile the model again");
  link_of_[source * devices_.size() + destination] = static_cast<int>(links_.size());
  links_.push_back(link);
  has_communicators_ = has_communicators_ || link.communicator_bytes > 0;
}

const LinkCost* CopyCosts::find_link(int source, int destination) const {
  const int index = link_of_[as_index(source) * devices_.size() + as_index(destination)];
  return index < 0 ? nullptr : &links_[as_index(index)];
}

const LinkCost& CopyCosts::link(int source, int destination) const {
  const LinkCost* known = find_link(source, destination);
  if (known == nullptr)
    throw planner::PlanError(
        "the profile does not know the link from " + devices_[as_index(source)].name + " to " + devices_[as_index(destination)].name,
        model_, "profile with both among `devices`");
  return *known;
}

double CopyCosts::seconds(int source, int destination, std::int64_t bytes) const {
  if (source == destination) return 0;
  if (!network_.empty()) {
    const NetworkLink& known = link_of(network_, source, destination);
    return known.latency_s + static_cast<double>(bytes) / known.bytes_per_second;
  }
  const LinkCost& known = link(source, destination);
  if (!known.curve.empty()) return on_curve(known, bytes);
  return known.latency_s + (known.bytes_per_second > 0 ? static_cast<double>(bytes) / known.bytes_per_second : 0);
}

int CopyCosts::medium(int source, int destination) const {
  if (network_.empty()) return link(source, destination).medium;
  return network_.shared_per_host && !on_one_host(network_, source, destination) ? network_.host_of[as_index(source)] : -1;
}

bool CopyCosts::sender_copies(int source, int destination) const {
  if (!network_.empty()) return false;
  const LinkCost* known = find_link(source, destination);
  return senders_copy_ && known != nullptr && known->sender_copies;
}

std::int64_t CopyCosts::communicator_bytes(int one, int other) const {
  if (!has_communicators_) return 0;
  std::int64_t bytes = 0;
  for (const LinkCost* known : {find_link(one, other), find_link(other, one)}) bytes += known == nullptr ? 0 : known->communicator_bytes;
  return bytes;
}

bool CopyCosts::can_offload(int device) const {
  const auto hidden = [](const HostCopies& copies) { return copies.bytes_per_second > 0 && !copies.device_copies; };
  return hidden(host_copies(device, true)) && hidden(host_copies(device, false));
}

const HostCopies& CopyCosts::host_copies(int device, bool to_host) const {
  const ProfileDevice& known = devices_[as_index(device)];
  return to_host ? known.to_host : known.from_host;
}

bool CopyCosts::makes_host_copies(int device, bool to_host) const {
  return host_copies(device, to_host).device_copies;
}

double CopyCosts::host_delay_seconds(int device, bool to_host, std::int64_t bytes) const {
  return host_copies(device, to_host).device_seconds_per_byte * static_cast<double>(bytes);
}

double CopyCosts::host_seconds(int device, bool to_host, std::int64_t bytes) const {
  const HostCopies& copies = host_copies(device, to_host);
  if (copies.bytes_per_second <= 0)
    throw planner::PlanError("the profile does not know copies between " + devices_[as_index(device)].name + " and the host's memory",
                             model_, "profile the model again, or plan without offloading");
  return copies.latency_s + static_cast<double>(bytes) / copies.bytes_per_second;
}

}  // namespace mptune
