#include "tests/support/hand_profile.h"

namespace mptune::testing {
namespace {

Samples samples(double first) {
  return {{{.value = first, .round = 0, .position = 1, .started = 0.1},
           {.value = first / 3, .round = 1, .position = 0, .started = 1e-9},
           {.value = 3599.9999999999995, .round = 7, .position = 2, .started = 0.30000000000000004}}};
}

LayerCost cost(int size, double time) {
  LayerCost result;
  result.samples = size;
  result.forward = samples(time);
  result.backward = exactly(2 * time);
  result.forward_busy = samples(1.1 * time);
  result.backward_input = exactly(time);
  result.backward_weight = samples(0.9 * time);
  result.output_bytes = 4096 * size;
  result.saved_activation_bytes = 8192 * size;
  result.workspace_bytes = 1;
  if (size > 1) result.peaks = LayerPeaks{7000 * size, 8000 * size + 5};
  if (size > 1) result.split = SplitMemory{9000 * size, 11, 12, 13, 14, 1.0 / 3, 15};
  return result;
}

}  // namespace

Profile hand_profile() {
  Profile profile;
  profile.model = "mlp:d=8";
  profile.input = "8";
  profile.batch = 16;
  profile.layers = {{"fc1", "Linear", {"net.0", "net.1"}, 72, 288, 8, true, 32, 0.25}, {"fc2", "Linear", {}, 72, 288, 0, false}};
  profile.edges = {{0, 1, 32, 8, true}, {0, 1, 4, 0, false, true}};
  profile.forbidden_cuts = {{1, "fc2 works in place on what fc1 keeps"}};
  profile.tied_parameters = {{1, 0, 256}};
  DeviceClass one{.name = "cpu/1",
                  .layers = {{{cost(1, 0.1), cost(2, 0.2)}}, {{cost(4, 1e-7)}}},
                  .action_seconds = 1e-6,
                  .step_seconds = 2e-6,
                  .optimizer_seconds_per_byte = 3e-10,
                  .reduce_seconds_per_byte = 1.0 / 3,
                  .allocator_reserve = 0.05};
  DeviceClass other;
  other.name = "sleep";
  other.layers.resize(2);
  other.layers[1].by_samples.resize(1);
  other.layers[1].by_samples[0].samples = 8;
  profile.classes = {one, other};
  profile.devices = {{"cpu:0", 0, 1 << 20, {1e-5, 2e10, true}, {2e-5, 1.0 / 3, true}}, {"cpu:1", 0, 0}, {"sleep:0", 1, 5}};
  profile.links = {{0, 1, 1e-5, 12e9, {{1 << 20, 1.0 / 3}, {1 << 30, 2}}, 1}, {1, 0, 2e-5, 1.0 / 7}};
  profile.operators = {{0, 1, 4, "aten::_slow_conv2d_backward", 1.0 / 3, 0.1, 0.030000000000000002}, {1, 0, 8, "it's", 1, 1e-7, 0}};
  profile.optimizer_state_factor = 2;
  profile.co_running_slowdown = 1.07;
  profile.precision = Precision::bf16;
  profile.fingerprint = {"sha256:00", "8:float32", {"cpu:0", "it's \"quoted\""}, "2.11.0", ""};
  return profile;
}

}  // namespace mptune::testing
