#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/base/memory_format.h"
#include "profiler/base/precision.h"
#include "profiler/base/runtime.h"
#include "profiler/base/sample_range.h"
#include "profiler/trace/statistics/samples.h"
#include "profiler/trace/values/network.h"

namespace mptune {

/// What a split backward of one layer holds beyond parameters, in bytes.
struct SplitMemory {
  std::int64_t held_bytes = 0;              ///< between its two parts: inputs of the weights' products, and gradients of their outputs
  std::int64_t held_input_bytes = 0;        ///< the part of held_bytes in memory of the layer's inputs
  std::int64_t held_gradient_bytes = 0;     ///< the part of held_bytes in memory of the gradients of its outputs
  std::int64_t input_workspace_bytes = 0;   ///< peak of the input gradients above what is held before them and gradients of parameters
  std::int64_t weight_workspace_bytes = 0;  ///< peak of the weight gradients above what is held before them and gradients of parameters
  double fused_share = -1;       ///< share of its products' multiplications in convolutions that fused micro-batches run once; -1: unknown
  std::int64_t fused_bytes = 0;  ///< input and output gradient of the largest of these convolutions
  bool operator==(const SplitMemory&) const = default;
};

/// Most bytes that one layer needs while it runs, above what is held before it.
struct LayerPeaks {
  std::int64_t bare_forward_bytes = 0;    ///< a forward without gradients; its output counts
  std::int64_t first_backward_bytes = 0;  ///< a backward that makes the gradients of its parameters, which count
  bool operator==(const LayerPeaks&) const = default;
};

/// What one layer costs at one micro-batch size on one class of device. Times in seconds.
struct LayerCost {
  int samples = 0;                          ///< micro-batch size
  Samples forward;                          ///< measured while all other devices are idle
  Samples backward;                         ///< gradients of inputs and weights; other devices idle
  Samples forward_busy;                     ///< measured while all other devices of the profile compute; empty: not measured
  Samples backward_busy;                    ///< backward while all other devices compute; empty: not measured
  Samples backward_input;                   ///< split backward: gradients of inputs; empty: not measured
  Samples backward_weight;                  ///< split backward: gradients of weights, after backward_input; empty: not measured
  std::int64_t output_bytes = 0;            ///< size of the output: what a cut after this layer sends
  std::int64_t saved_activation_bytes = 0;  ///< held from the layer's forward to its backward, output included
  bool keeps_output = true;                 ///< its own backward needs the output; false: only a later layer may
  std::int64_t workspace_bytes = 0;         ///< peak above what is held and the gradients of parameters, during forward or backward
  std::optional<SplitMemory> split = {};    ///< absent: not measured
  std::optional<LayerPeaks> peaks = {};     ///< absent: not measured, and the last layer's saved activations hold the step's losses
  bool operator==(const LayerCost&) const = default;
};

/// Layer costs on one class of device, ordered by micro-batch size.
struct LayerCosts {
  std::vector<LayerCost> by_samples;
  bool operator==(const LayerCosts&) const = default;
};

/// How layers compute where there is a choice.
struct ExecutionVariant {
  MemoryFormat memory_format = MemoryFormat::contiguous;
  bool replaces_slow_kernels = false;  ///< convolutions that LibTorch would compute by a slow kernel take another one
  int threads = 0;                     ///< intra-op threads of a device, if it has more cores; 0: one per core
  bool operator==(const ExecutionVariant&) const = default;
};

/// Devices that share layer costs, in one execution variant.
struct DeviceClass {
  std::string name;                       ///< "cpu/1": core sets of one core
  std::vector<LayerCosts> layers;         ///< as many as Profile::layers; measured sizes may differ between classes
  double action_seconds = 0;              ///< fixed cost of one action (hand-over between threads, bookkeeping)
  double step_seconds = 0;                ///< fixed cost of one step (start and end of all workers)
  double optimizer_seconds_per_byte = 0;  ///< per byte of parameters
  double reduce_seconds_per_byte = 0;     ///< adding a replica's gradients to another's and, in the host's memory, copying the parameters
                                          ///< back, per byte of parameters
  double allocator_reserve = 0;           ///< bytes that the allocator holds but nothing uses, per byte in use; 0: none, or unknown
  std::int64_t library_bytes = 0;         ///< what libraries keep of a device's memory once the model has run, such as workspaces of cuBLAS
  ExecutionVariant variant = {};          ///< that the costs were measured in
  int variant_of = -1;  ///< class of the same devices in the default variant, which devices name; -1: this class is the default variant
  bool operator==(const DeviceClass&) const = default;
};

/// Copies between a device's memory and the host's, one direction: latency + bytes / bytes_per_second.
struct HostCopies {
  double latency_s = 0;
  double bytes_per_second = 0;         ///< 0: not measured
  bool device_copies = false;          ///< the device's compute thread copies, and computes nothing meanwhile
  double device_seconds_per_byte = 0;  ///< by how much other copies delay the device's computation: those on its own cores
  bool operator==(const HostCopies&) const = default;
};

struct ProfileDevice {
  std::string name;               ///< "cpu:0"
  int device_class = 0;           ///< index into Profile::classes, of the default variant
  std::int64_t memory_bytes = 0;  ///< cap, else what tensors and libraries can have of a GPU's memory; 0: unknown
  HostCopies to_host = {};
  HostCopies from_host = {};
  bool operator==(const ProfileDevice&) const = default;
};

struct ProfileLayer {
  std::string name;                   ///< "layer1.0"
  std::string kind;                   ///< "Bottleneck"
  std::vector<std::string> modules;   ///< module paths in the user's model that this layer covers
  std::int64_t parameters = 0;        ///< number of scalars; tied weights count in their first layer only
  std::int64_t parameters_bytes = 0;  ///< of all parameters that it uses, tied weights included
  std::int64_t buffers_bytes = 0;
  bool batch_statistics = false;   ///< its output depends on all samples of a micro-batch (batch norm)
  std::int64_t unsplit_bytes = 0;  ///< of parameters whose gradients a split backward computes with the input gradients, as measured
  double unsplit_share = 0;        ///< the share, by bytes, of these parameters among its weights with two or more dimensions
  std::string written_buffer{};    ///< a buffer that its forward writes, once a micro-batch; "": none
  int parameter_tensors = 0;       ///< how many parameters it has, as tensors; 0: none, or unknown
  SampleRange samples{};           ///< of a micro-batch that it takes
  bool operator==(const ProfileLayer&) const = default;
};

/// Parameters that a layer shares with an earlier one (tied weights): with the nearest, if several earlier ones share them. A device has
/// them once for all layers of a stage.
struct TiedParameters {
  int layer = 0;
  int earlier_layer = 0;
  std::int64_t bytes = 0;  ///< counted in parameters_bytes of both layers
  bool operator==(const TiedParameters&) const = default;
};

/// Data that flows from one layer to another.
struct LayerEdge {
  int from = 0;
  int to = 0;
  std::int64_t bytes_per_sample = 0;
  std::int64_t fixed_bytes = 0;
  bool needs_gradient = true;
  bool several_readers = false;  ///< more than one operator of the layer `to` may read it
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

/// One direction between two devices. A copy takes latency + bytes / bytes_per_second; a curve, where there is one, replaces this.
struct LinkCost {
  int source = 0;       ///< index into Profile::devices
  int destination = 0;  ///< index into Profile::devices
  double latency_s = 0;
  double bytes_per_second = 0;
  std::vector<LinkPoint> curve = {};  ///< ascending in bytes, interpolated linearly, latency_s at 0 bytes; empty: no curve
  int medium = -1;  ///< links with the same number share a medium: their copies queue, whatever their direction; -1: full duplex, unshared
  bool sender_copies = false;           ///< the sender's compute thread copies, and computes nothing meanwhile; false: something else does
  double tensor_s = 0;                  ///< what each further tensor takes where several are copied one after another; 0: not measured
  std::int64_t communicator_bytes = 0;  ///< buffers that NCCL keeps on both GPUs for this direction, from the first message on
  bool operator==(const LinkCost&) const = default;
};

/// The LibTorch operator that takes most of a layer's time at one micro-batch size.
struct LayerOperator {
  int device_class = 0;         ///< index into Profile::classes
  int layer = 0;                ///< index into Profile::layers
  int samples = 0;              ///< micro-batch size
  std::string name;             ///< "aten::_slow_conv2d_backward"
  double share = 0;             ///< of the time of the layer's operators, forward and backward
  double seconds = 0;           ///< the layer's forward and backward
  double replaced_seconds = 0;  ///< the same time with slow kernels replaced; 0: the layer has no slow kernels at this size
  bool operator==(const LayerOperator&) const = default;
};

/// Identifies what was measured: layer names and kinds, shapes and dtypes of parameters and buffers, edges. Never weights or the batch.
struct Fingerprint {
  std::string model;  ///< "sha256:..."
  std::string input;  ///< "3x64x64:float32"
  std::vector<std::string> devices;
  std::string libtorch;
  std::string cuda;  ///< which GPUs, "NVIDIA H200, 132 SMs"; "" without GPUs
  bool operator==(const Fingerprint&) const = default;
};

/// Everything the planner knows about a model and a machine.
struct Profile {
  std::string model;  ///< as given by the user: "resnet50", "transformer:d=256"
  std::string input;  ///< shape of one sample: "3x64x64"
  int batch = 0;      ///< global batch that the profile was made for
  std::vector<ProfileLayer> layers;
  std::vector<LayerEdge> edges;  ///< from < to; a chain has the edges i -> i + 1
  std::vector<ForbiddenCut> forbidden_cuts;
  std::vector<TiedParameters> tied_parameters;
  std::vector<DeviceClass> classes;
  std::vector<ProfileDevice> devices;
  std::vector<LinkCost> links;
  Network network = {};                      ///< of machines on paper, in place of `links`; without hosts: none
  std::vector<LayerOperator> operators;      ///< of layers whose cost per sample jumps (analyze/cost_jumps.h); empty: not measured
  Precision precision = Precision::float32;  ///< that the layers computed in
  Runtime runtime = Runtime::mptune;         ///< whose rules of sending and receiving a plan is simulated by; not stored
  double optimizer_state_factor = 0;         ///< bytes of optimizer state per byte of parameters: 0 for sgd, 1 with momentum, 2 for adam
  double co_running_slowdown = 1;            ///< geometric mean of busy over alone time, over all layers and sizes
  std::int64_t target_bytes_per_sample = 0;  ///< of the targets that the loss reads; 0: none, or unknown
  std::string estimated;                     ///< kind of GPU that its costs are estimated for, "h100_sxm"; "": they were measured
  Fingerprint fingerprint;
  bool operator==(const Profile&) const = default;
};

}  // namespace mptune
