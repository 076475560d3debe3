#include "reports/render/links_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/base/units.h"

namespace mptune::reports {
namespace {

/// This many links are listed without -v: those of four devices.
constexpr std::size_t kFewLinks = 12;

/// A link, or copies between a device and host memory.
struct LinkLine {
  std::string from;
  std::string to;
  double bytes_per_second = 0;
  double latency_s = 0;
};

std::vector<LinkLine> links_of(const Profile& profile) {
  std::vector<LinkLine> lines;
  for (const LinkCost& link : profile.links)
    lines.push_back({printable(profile.devices.at(as_index(link.source)).name),
                     printable(profile.devices.at(as_index(link.destination)).name), link.bytes_per_second, link.latency_s});
  return lines;
}

std::vector<LinkLine> host_copies_of(const Profile& profile) {
  std::vector<LinkLine> lines;
  const auto add = [&](const HostCopies& copies, const std::string& from, const std::string& to) {
    if (copies.bytes_per_second > 0 && !copies.device_copies) lines.push_back({from, to, copies.bytes_per_second, copies.latency_s});
  };
  for (const ProfileDevice& device : profile.devices) {
    add(device.to_host, printable(device.name), "host memory");
    add(device.from_host, "host memory", printable(device.name));
  }
  return lines;
}

/// Returns "8 GB/s to 10 GB/s", or "10 GB/s" where all are equal.
std::string range_text(const std::vector<LinkLine>& lines, double LinkLine::*value, std::string (*text)(double)) {
  const auto [least, most] = std::ranges::minmax(lines, {}, value);
  const std::string low = text(least.*value), high = text(most.*value);
  return low == high ? low : low + " to " + high;
}

std::string lines_text(const std::vector<LinkLine>& lines, const std::string& one, const std::string& several, Listing listing) {
  if (listing == Listing::few && lines.size() > kFewLinks)
    return fmt::format("{} {}: {}, latency {}; -v lists them\n", lines.size(), several,
                       range_text(lines, &LinkLine::bytes_per_second, format_bandwidth),
                       range_text(lines, &LinkLine::latency_s, format_seconds));
  std::string text;
  for (const LinkLine& line : lines)
    text += fmt::format("{} {} to {}: {}, latency {}\n", one, line.from, line.to, format_bandwidth(line.bytes_per_second),
                        format_seconds(line.latency_s));
  return text;
}

}  // namespace

std::string links_text(const Profile& profile, Listing listing) {
  return lines_text(links_of(profile), "link", "links", listing) +
         lines_text(host_copies_of(profile), "copies", "copies to and from host memory", listing);
}

}  // namespace mptune::reports
