#include "profiler/trace/values/profile_tensors.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

void add_reader(std::vector<int>& readers, int layer) {
  const auto place = std::ranges::lower_bound(readers, layer);
  if (place == readers.end() || *place != layer) readers.insert(place, layer);
}

// What crosses the cut before a layer.
struct Crossing {
  LayerEdge with_gradient;
  LayerEdge without;
  bool any_gradient = false;
  bool any_without = false;

  void add(const ProfileTensor& tensor, bool gradient) {
    LayerEdge& edge = gradient ? with_gradient : without;
    edge.bytes_per_sample += tensor.bytes_per_sample;
    edge.fixed_bytes += tensor.fixed_bytes;
    (gradient ? any_gradient : any_without) = true;
  }
};

}  // namespace

std::vector<ProfileTensor> profile_tensors(const Profile& profile) {
  const int layers = static_cast<int>(profile.layers.size());
  using Size = std::tuple<int, std::int64_t, std::int64_t>;
  std::map<std::pair<Size, int>, int> parallel;  // by size and reader
  std::map<std::pair<Size, int>, ProfileTensor> tensors;
  for (const LayerEdge& edge : profile.edges) {
    if (edge.from < 0 || edge.to <= edge.from || edge.to >= layers)
      throw Error("the profile has data that flow from layer " + std::to_string(edge.from) + " to layer " + std::to_string(edge.to),
                  profile.model, "profile the model again");
    const Size size{edge.from, edge.bytes_per_sample, edge.fixed_bytes};
    ProfileTensor& tensor = tensors[{size, parallel[{size, edge.to}]++}];
    tensor.maker = edge.from;
    tensor.bytes_per_sample = edge.bytes_per_sample;
    tensor.fixed_bytes = edge.fixed_bytes;
    add_reader(tensor.readers, edge.to);
    if (edge.several_readers) add_reader(tensor.several, edge.to);
    if (edge.needs_gradient) add_reader(tensor.gradient_readers, edge.to);
  }
  std::vector<ProfileTensor> all;
  for (auto& [key, tensor] : tensors) all.push_back(std::move(tensor));
  return all;
}

bool is_chain(const Profile& profile) {
  std::vector<bool> fed(profile.layers.size(), false);
  for (const LayerEdge& edge : profile.edges) {
    if (edge.to != edge.from + 1) return false;
    if (edge.to > 0 && as_index(edge.to) < fed.size()) fed[as_index(edge.to)] = true;
  }
  return std::all_of(fed.begin() + (fed.empty() ? 0 : 1), fed.end(), [](bool has) { return has; });
}

Profile as_chain(const Profile& profile) {
  std::vector<Crossing> before(profile.layers.size());
  for (const ProfileTensor& tensor : profile_tensors(profile)) {
    const int last_gradient = tensor.gradient_readers.empty() ? -1 : tensor.gradient_readers.back();
    for (int layer = tensor.maker + 1; layer <= tensor.readers.back(); ++layer) before[as_index(layer)].add(tensor, layer <= last_gradient);
  }
  Profile chain = profile;
  chain.edges.clear();
  for (std::size_t layer = 1; layer < before.size(); ++layer) {
    const auto add = [&](LayerEdge edge, bool gradient) {
      edge.from = static_cast<int>(layer) - 1;
      edge.to = static_cast<int>(layer);
      edge.needs_gradient = gradient;
      chain.edges.push_back(edge);
    };
    if (before[layer].any_gradient) add(before[layer].with_gradient, true);
    if (before[layer].any_without || !before[layer].any_gradient) add(before[layer].without, false);
  }
  return chain;
}

std::optional<Profile> backbone(const Profile& profile) {
  Profile chain = profile;
  std::erase_if(chain.edges, [](const LayerEdge& edge) { return edge.to != edge.from + 1; });
  std::vector<bool> trained(profile.layers.size(), false);
  for (const LayerEdge& edge : chain.edges)
    if (edge.needs_gradient) trained[as_index(edge.to)] = true;
  if (!is_chain(chain) || std::find(trained.begin() + 1, trained.end(), false) != trained.end()) return std::nullopt;
  return chain;
}

}  // namespace mptune
