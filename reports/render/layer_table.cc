#include "reports/render/layer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <vector>

#include "profiler/base/units.h"
#include "reports/render/table.h"
#include "reports/render/units.h"

namespace mptune::reports {

namespace {

constexpr std::size_t kFewLayers = 5;

/// A layer at the micro-batch size that ran, or the nearest measured one.
struct CostedLayer {
  std::size_t layer = 0;
  LayerCost cost;
  double seconds = 0;
};

/// Returns the layers with the costs of the first device class.
std::vector<CostedLayer> costed_layers(const Profile& profile, int samples) {
  std::vector<CostedLayer> layers;
  for (std::size_t i = 0; i < profile.layers.size() && !profile.classes.empty(); ++i) {
    const auto& costs = profile.classes.front().layers.at(i).by_samples;
    const auto nearest = std::ranges::min_element(costs, {}, [&](const LayerCost& cost) { return std::abs(cost.samples - samples); });
    if (nearest != costs.end()) layers.push_back({i, *nearest, median(nearest->forward) + median(nearest->backward)});
  }
  return layers;
}

}  // namespace

std::string layer_table(const Profile& profile, int samples, const std::string& where, Listing listing, const TextStyle& style) {
  std::vector<CostedLayer> layers = costed_layers(profile, samples);
  const std::size_t all = layers.size();
  if (listing == Listing::few && all > kFewLayers) {
    std::ranges::stable_sort(layers, std::ranges::greater{}, &CostedLayer::seconds);
    layers.resize(kFewLayers);
  }
  std::vector<std::vector<Cell>> rows;
  for (const CostedLayer& costed : layers) {
    const ProfileLayer& layer = profile.layers[costed.layer];
    rows.push_back({std::to_string(costed.layer), layer.name, std::to_string(costed.cost.samples),
                    format_seconds(median(costed.cost.forward)), format_seconds(median(costed.cost.backward)),
                    format_bytes(costed.cost.output_bytes), format_bytes(costed.cost.saved_activation_bytes),
                    format_bytes(layer.parameters_bytes)});
  }
  const std::string title = (layers.size() < all ? "Most expensive layers " : "Layers ") + where;
  return heading(style, title) +
         render_table({{"layer", true},
                       {"name"},
                       {"samples", true},
                       {"forward", true},
                       {"backward", true},
                       {"output", true},
                       {"saved", true},
                       {"parameters", true}},
                      rows, style) +
         (layers.size() < all ? fmt::format("-v lists all {} layers\n", all) : "");
}

}  // namespace mptune::reports
