#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mptune/profiler/statistics/samples.h"

namespace mptune {

/// What one layer costs at one micro-batch size on one class of device. Times in seconds.
struct LayerCost {
  int samples = 0;                          ///< micro-batch size
  Samples forward;                          ///< all other devices idle
  Samples backward;                         ///< gradients of inputs and weights, likewise
  Samples forward_busy;                     ///< with the other devices of the profile busy; empty: not measured
  Samples backward_busy;                    ///< likewise
  Samples backward_input;                   ///< of backward, the gradients of inputs; empty: only the whole was measured
  Samples backward_weight;                  ///< of backward, the gradients of weights, with what backward_input left saved; likewise
  std::int64_t output_bytes = 0;            ///< what would cross a cut behind this layer
  std::int64_t saved_activation_bytes = 0;  ///< held from the layer's forward to its backward, output included
  bool keeps_output = true;                 ///< its own backward needs the output; false: only a layer behind it may
  std::int64_t workspace_bytes = 0;         ///< peak above what is held and the gradients of parameters, during forward or backward
  bool operator==(const LayerCost&) const = default;
};

/// Layer costs on one class of device, ordered by micro-batch size.
struct LayerCosts {
  std::vector<LayerCost> by_samples;
  bool operator==(const LayerCosts&) const = default;
};

/// A kind of device that all its members share the layer costs of.
struct DeviceClass {
  std::string name;                       ///< "cpu/1": core sets of one core
  std::vector<LayerCosts> layers;         ///< as many as Profile::layers; measured sizes may differ between classes
  double action_seconds = 0;              ///< fixed cost of one action (hand-over, bookkeeping)
  double step_seconds = 0;                ///< fixed cost of one step (start and end of all workers)
  double optimizer_seconds_per_byte = 0;  ///< per byte of parameters
  double reduce_seconds_per_byte =
      0;                         ///< sum of one replica's gradients into another's and refresh of its parameters, per byte of parameters
  double allocator_reserve = 0;  ///< bytes the allocator holds beyond those in use, per byte in use; 0: none, or not known
  bool operator==(const DeviceClass&) const = default;
};

struct ProfileDevice {
  std::string name;               ///< "cpu:0"
  int device_class = 0;           ///< index into Profile::classes
  std::int64_t memory_bytes = 0;  ///< cap or size; 0: not known
  bool operator==(const ProfileDevice&) const = default;
};

struct ProfileLayer {
  std::string name;                   ///< "layer1.0"
  std::string kind;                   ///< "Bottleneck"
  std::vector<std::string> modules;   ///< module paths in the user's model that this layer covers
  std::int64_t parameters = 0;        ///< number of scalars; of tied weights where they are first
  std::int64_t parameters_bytes = 0;  ///< of all that it uses, tied weights too
  std::int64_t buffers_bytes = 0;
  bool batch_statistics = false;  ///< couples the samples of a micro-batch (batch norm)
  bool operator==(const ProfileLayer&) const = default;
};

/// Data that flows from one layer to another.
struct LayerEdge {
  int from = 0;
  int to = 0;
  std::int64_t bytes_per_sample = 0;
  std::int64_t fixed_bytes = 0;
  bool needs_gradient = true;
  bool operator==(const LayerEdge&) const = default;
};

/// A place where no stage may begin.
struct ForbiddenCut {
  int layer = 0;       ///< first layer of the stage that would begin there
  std::string reason;  ///< "relu1 works in place on the output of conv1"
  bool operator==(const ForbiddenCut&) const = default;
};

/// How long a copy of one size took.
struct LinkPoint {
  std::int64_t bytes = 0;
  double seconds = 0;
  bool operator==(const LinkPoint&) const = default;
};

/// One direction between two devices: time of a copy = latency + bytes / bytes_per_second, or what the curve says where there is one.
struct LinkCost {
  int source = 0;       ///< index into Profile::devices
  int destination = 0;  ///< likewise
  double latency_s = 0;
  double bytes_per_second = 0;
  std::vector<LinkPoint> curve = {};  ///< ascending in bytes; lines between the points, latency_s at 0 bytes
  int medium = -1;  ///< links of the same number share one medium, on which copies of any direction queue; -1: nobody else's, full duplex
  bool operator==(const LinkCost&) const = default;
};

/// Who was measured: covers layer names, kinds, parameter and buffer shapes and dtypes and edges; never weights or batch.
struct Fingerprint {
  std::string model;  ///< "sha256:..."
  std::string input;  ///< "3x64x64:float32"
  std::vector<std::string> devices;
  std::string libtorch;
  std::string cuda;  ///< "" without CUDA
  bool operator==(const Fingerprint&) const = default;
};

/// Everything the planner knows about a model and a machine.
struct Profile {
  std::string model;  ///< as the user named it: "resnet50", "transformer:d=256"
  std::string input;  ///< shape of one sample: "3x64x64"
  int batch = 0;      ///< global batch that was profiled for
  std::vector<ProfileLayer> layers;
  std::vector<LayerEdge> edges;  ///< forward in the order of layers; chains: i -> i + 1
  std::vector<ForbiddenCut> forbidden_cuts;
  std::vector<DeviceClass> classes;
  std::vector<ProfileDevice> devices;
  std::vector<LinkCost> links;
  double optimizer_state_factor = 0;  ///< bytes of optimizer state per byte of parameters: 0 for sgd, 2 for adam
  double co_running_slowdown = 1;     ///< geometric mean of busy over alone time, over all layers and sizes
  Fingerprint fingerprint;
  bool operator==(const Profile&) const = default;
};

}  // namespace mptune
