#include "profiler/trace/formats/bandwidth_table.h"

#include <cmath>

#include "profiler/base/text.h"
#include "profiler/trace/formats/text_lines.h"

namespace mptune::profiler {
namespace {

constexpr double kLargestMessage = 1 << 20;  // MiB
constexpr double kFastestLink = 1e9;         // GiB/s

std::vector<double> table_line(TextLines& lines, const std::string& name, double most) {
  if (!lines.next()) lines.refuse("the line of " + name + " is missing");
  std::vector<double> values;
  for (const std::string& cell : split(lines.line(), ',')) {
    values.push_back(lines.quantity(cell, name, most));
    if (values.back() < 1e-6) lines.refuse(name + " is out of range");
  }
  return values;
}

}  // namespace

std::vector<LinkPoint> read_bandwidth_table(TextInput& input) {
  TextLines lines(input, "give a table as Aceso's profiler writes it: a line of message sizes (MB), then a line of bandwidths (GB/s)");
  std::vector<LinkPoint> times;
  for (const double size : table_line(lines, "the message size", kLargestMessage)) {
    const std::int64_t bytes = std::llround(size * 1024 * 1024);
    if (bytes <= (times.empty() ? 0 : times.back().bytes)) lines.refuse("the message sizes are not ascending");
    times.push_back({bytes, 0});
  }
  const std::vector<double> bandwidths = table_line(lines, "the bandwidth", kFastestLink);
  if (bandwidths.size() != times.size())
    lines.refuse(std::to_string(bandwidths.size()) + " bandwidths for " + std::to_string(times.size()) + " message sizes");
  for (std::size_t i = 0; i < times.size(); ++i)
    times[i].seconds = static_cast<double>(times[i].bytes) / (bandwidths[i] * 1024 * 1024 * 1024);
  if (lines.next()) lines.refuse("the table has more than two lines");
  return times;
}

}  // namespace mptune::profiler
