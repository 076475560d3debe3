#include "reports/render/slow_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/trace/analyze/slow_kernels.h"
#include "reports/render/table.h"

namespace mptune::reports {

namespace {

using profiler::SlowKernel;

double factor_of(const SlowKernel& kernel) {
  return kernel.replaced_seconds > 0 ? kernel.seconds / kernel.replaced_seconds : 1;
}

/// Returns "cpu/2, contiguous, 1 thread".
std::string conditions_of(const DeviceClass& measured) {
  const int threads = measured.variant.threads;
  return measured.name + ", " + name_of(measured.variant.memory_format) + (threads == 0 ? "" : ", " + counted(threads, "thread"));
}

/// Renders a table with rows by layer, the whole model last, and columns by micro-batch size.
std::string table_of(const Profile& profile, const std::vector<SlowKernel>& kernels, const TextStyle& style) {
  std::set<int> sizes;
  std::map<int, std::map<int, double>> layers;
  for (const SlowKernel& kernel : kernels) {
    sizes.insert(kernel.samples);
    // The whole model has the layer -1.
    layers[kernel.layer < 0 ? static_cast<int>(profile.layers.size()) : kernel.layer][kernel.samples] = factor_of(kernel);
  }
  std::vector<Column> columns{{"layer", true}, {"name"}};
  for (const int size : sizes) columns.push_back({fmt::format("{} sample{}", size, size == 1 ? "" : "s"), true});
  std::vector<std::vector<Cell>> rows;
  for (const auto& [layer, factors] : layers) {
    const bool whole = as_index(layer) == profile.layers.size();
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(whole ? "" : std::to_string(layer));
    row.emplace_back(whole ? "all layers" : profile.layers[as_index(layer)].name);
    for (const int size : sizes) row.emplace_back(factors.count(size) > 0 ? fmt::format("{:.2f}", factors.at(size)) : "");
  }
  return render_table(columns, rows, style);
}

}  // namespace

std::string slow_kernels_text(const Profile& profile, const TextStyle& style) {
  std::vector<SlowKernel> all = profiler::slow_kernels(profile);
  if (all.empty()) return "";
  const std::vector<SlowKernel> sums = profiler::whole_model(profile, all);
  all.insert(all.end(), sums.begin(), sums.end());
  std::map<int, std::vector<SlowKernel>> by_class;
  for (const SlowKernel& kernel : all) by_class[kernel.device_class].push_back(kernel);
  std::string text = "\n" + heading(style, "Slow kernels");
  for (const auto& [index, kernels] : by_class) {
    const DeviceClass& measured = profile.classes[as_index(index)];
    const std::string what = fmt::format(
        "How many times as long forward and backward take with LibTorch's slow kernels as with oneDNN's, on {}:", conditions_of(measured));
    text += join(wrap(what, style.width), "\n") + "\n" + table_of(profile, kernels, style);
  }
  return text;
}

planner::Json slow_kernels_json(const Profile& profile) {
  planner::Json json = planner::Json::array();
  for (const SlowKernel& kernel : profiler::slow_kernels(profile)) {
    const DeviceClass& measured = profile.classes[as_index(kernel.device_class)];
    json.push_back({{"devices", measured.name},
                    {"memory_format", name_of(measured.variant.memory_format)},
                    {"threads", measured.variant.threads},
                    {"layer", kernel.layer},
                    {"name", profile.layers.at(as_index(kernel.layer)).name},
                    {"samples", kernel.samples},
                    {"seconds", kernel.seconds},
                    {"replaced_seconds", kernel.replaced_seconds},
                    {"factor", factor_of(kernel)}});
  }
  return json;
}

}  // namespace mptune::reports
