#include <array>
#include <optional>
#include <string>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/store/tables.h"
#include "profiler/trace/values/profile_limits.h"

namespace mptune::profiler {
namespace {

// Index = MPTUNE_LAYER_SAMPLE.kind.
constexpr std::array<Samples LayerCost::*, 6> kSampleKinds{&LayerCost::forward,        &LayerCost::backward,
                                                           &LayerCost::forward_busy,   &LayerCost::backward_busy,
                                                           &LayerCost::backward_input, &LayerCost::backward_weight};

std::optional<double> median_or_null(const Samples& samples) {
  return samples.empty() ? std::nullopt : std::optional<double>(median(samples));
}

constexpr std::int64_t kMostSamples = 1 << 20;
constexpr auto kMostSizeBytes = static_cast<std::int64_t>(kMostProfileBytes);
constexpr std::int64_t kMostMemoryBytes = std::int64_t{1} << 50;
constexpr std::size_t kMostDevices = 4096;
constexpr std::int64_t kMostThreads = 4096;          // of a device
constexpr std::size_t kMostClassLayers = 1'000'000;  // of all classes together
constexpr double kMostFactor = 1000;
constexpr double kMostBytesPerSecond = 1e18;
constexpr double kLatestStartSeconds = 1e9;

std::int64_t count(Rows& rows, int column, const char* what, std::int64_t most = kMostSizeBytes) {
  const std::int64_t value = rows.integer(column);
  if (value < 0 || value > most) throw BadContent(std::string(what) + " is negative or too large");
  return value;
}

double quantity(Rows& rows, int column, const char* what, double most = kMostProfileSeconds) {
  const double value = rows.real(column);
  if (!(value >= 0 && value <= most)) throw BadContent(std::string(what) + " is negative or too large");
  return value;
}

template <class Value>
void require_below_limit(const std::vector<Value>& values, std::size_t most, const char* what) {
  if (values.size() >= most) throw BadContent("the profile has more than " + std::to_string(most) + " " + what);
}

void write_head(SQLite::Database& database, const Profile& profile) {
  const Fingerprint& fingerprint = profile.fingerprint;
  Insert(database, "INSERT INTO MPTUNE_PROFILE VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")(
      profile.model, profile.input, profile.batch, profile.optimizer_state_factor, profile.co_running_slowdown, fingerprint.model,
      fingerprint.input, fingerprint.libtorch, fingerprint.cuda, name_of(profile.precision), profile.target_bytes_per_sample,
      profile.estimated);
  int row = 0;
  Insert device(database, "INSERT INTO MPTUNE_FINGERPRINT_DEVICE VALUES (?, ?)");
  for (const std::string& name : fingerprint.devices) device(row++, name);
}

void write_layers(SQLite::Database& database, const Profile& profile) {
  Insert layer(database, "INSERT INTO MPTUNE_LAYER VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert module(database, "INSERT INTO MPTUNE_MODULE VALUES (?, ?, ?)");
  int row = 0;
  int module_row = 0;
  for (const ProfileLayer& l : profile.layers) {
    layer(row, l.name, l.kind, l.parameters, l.parameters_bytes, l.buffers_bytes, l.batch_statistics, l.unsplit_bytes, l.unsplit_share,
          l.written_buffer, l.parameter_tensors, l.samples.least, l.samples.most);
    for (const std::string& name : l.modules) module(module_row++, row, name);
    ++row;
  }
  row = 0;
  Insert edge(database, "INSERT INTO MPTUNE_LAYER_EDGE VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const LayerEdge& e : profile.edges)
    edge(row++, e.from, e.to, e.bytes_per_sample, e.fixed_bytes, e.needs_gradient, e.several_readers);
  row = 0;
  Insert cut(database, "INSERT INTO MPTUNE_FORBIDDEN_CUT VALUES (?, ?, ?)");
  for (const ForbiddenCut& c : profile.forbidden_cuts) cut(row++, c.layer, c.reason);
  row = 0;
  Insert tied(database, "INSERT INTO MPTUNE_TIED_PARAMETERS VALUES (?, ?, ?, ?)");
  for (const TiedParameters& t : profile.tied_parameters) tied(row++, t.layer, t.earlier_layer, t.bytes);
}

void write_machine(SQLite::Database& database, const Profile& profile) {
  int row = 0;
  Insert device(database, "INSERT INTO MPTUNE_PROFILE_DEVICE VALUES (?, ?, ?, ?)");
  Insert host(database, "INSERT INTO MPTUNE_HOST_COPIES VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const ProfileDevice& d : profile.devices) {
    const HostCopies &to = d.to_host, &from = d.from_host;
    if (to.bytes_per_second > 0)
      host(row, to.latency_s, to.bytes_per_second, to.device_copies, to.device_seconds_per_byte, from.latency_s, from.bytes_per_second,
           from.device_copies, from.device_seconds_per_byte);
    device(row++, d.name, d.device_class, d.memory_bytes);
  }
  row = 0;
  Insert link(database, "INSERT INTO MPTUNE_LINK VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Insert point(database, "INSERT INTO MPTUNE_LINK_POINT VALUES (?, ?, ?, ?)");
  int point_row = 0;
  for (const LinkCost& l : profile.links) {
    for (const LinkPoint& p : l.curve) point(point_row++, row, p.bytes, p.seconds);
    link(row++, l.source, l.destination, l.latency_s, l.bytes_per_second, l.medium, l.sender_copies, l.communicator_bytes, l.tensor_s);
  }
  row = 0;
  Insert device_class(database, "INSERT INTO MPTUNE_DEVICE_CLASS VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const DeviceClass& c : profile.classes)
    device_class(row++, c.name, c.layers.size(), c.action_seconds, c.step_seconds, c.optimizer_seconds_per_byte, c.reduce_seconds_per_byte,
                 c.allocator_reserve, static_cast<int>(c.variant.memory_format), c.variant.replaces_slow_kernels, c.variant_of,
                 c.variant.threads, c.library_bytes);
}

void write_operators(SQLite::Database& database, const Profile& profile) {
  int row = 0;
  Insert insert(database, "INSERT INTO MPTUNE_LAYER_OPERATOR VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  for (const LayerOperator& o : profile.operators)
    insert(row++, o.device_class, o.layer, o.samples, o.name, o.share, o.seconds, o.replaced_seconds);
}

class CostWriter {
 public:
  explicit CostWriter(SQLite::Database& database)
      : cost_(database, "INSERT INTO MPTUNE_LAYER_COST VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        split_(database, "INSERT INTO MPTUNE_LAYER_SPLIT VALUES (?, ?, ?, ?, ?, ?, ?, ?)"),
        peak_(database, "INSERT INTO MPTUNE_LAYER_PEAK VALUES (?, ?, ?)"),
        sample_(database, "INSERT INTO MPTUNE_LAYER_SAMPLE VALUES (?, ?, ?, ?, ?, ?, ?)") {}

  void write(std::size_t device_class, std::size_t layer, const LayerCost& cost) {
    cost_(costs_, device_class, layer, cost.samples, median_or_null(cost.forward), median_or_null(cost.backward), cost.output_bytes,
          cost.saved_activation_bytes, cost.workspace_bytes, cost.keeps_output);
    if (cost.split)
      split_(costs_, cost.split->held_bytes, cost.split->held_input_bytes, cost.split->held_gradient_bytes,
             cost.split->input_workspace_bytes, cost.split->weight_workspace_bytes,
             cost.split->fused_share < 0 ? std::nullopt : std::optional(cost.split->fused_share), cost.split->fused_bytes);
    if (cost.peaks) peak_(costs_, cost.peaks->bare_forward_bytes, cost.peaks->first_backward_bytes);
    for (std::size_t kind = 0; kind < kSampleKinds.size(); ++kind)
      for (const Sample& s : (cost.*kSampleKinds[kind]).values) sample_(samples_++, costs_, kind, s.value, s.round, s.position, s.started);
    ++costs_;
  }

 private:
  Insert cost_;
  Insert split_;
  Insert peak_;
  Insert sample_;
  std::int64_t costs_ = 0;
  std::int64_t samples_ = 0;
};

void read_head(SQLite::Database& database, Profile& profile) {
  const std::string precision = has_column(database, "MPTUNE_PROFILE", "precision") ? "precision" : "'float32'";
  const std::string target = has_column(database, "MPTUNE_PROFILE", "target_bytes_per_sample") ? "target_bytes_per_sample" : "0";
  const std::string estimated = has_column(database, "MPTUNE_PROFILE", "estimated") ? "estimated" : "''";
  Rows head(database,
            "SELECT model, input, batch, optimizer_state_factor, co_running_slowdown, fingerprint_model, fingerprint_input, "
            "fingerprint_libtorch, fingerprint_cuda, " +
                precision + ", " + target + ", " + estimated + " FROM MPTUNE_PROFILE");
  if (!head.next()) throw BadContent("MPTUNE_PROFILE has no row");
  profile.model = head.text(0);
  profile.input = head.text(1);
  profile.batch = static_cast<int>(count(head, 2, "the batch", kMostSamples));
  profile.optimizer_state_factor = quantity(head, 3, "the optimizer's state", kMostFactor);
  profile.co_running_slowdown = quantity(head, 4, "the slowdown of busy devices", kMostFactor);
  profile.fingerprint = {head.text(5), head.text(6), {}, head.text(7), head.text(8)};
  const auto known = precision_of(head.text(9));
  if (!known) throw BadContent("the precision of the profile is not known");
  profile.precision = *known;
  profile.target_bytes_per_sample = count(head, 10, "the size of a target");
  profile.estimated = head.text(11);
  Rows device(database, "SELECT name FROM MPTUNE_FINGERPRINT_DEVICE ORDER BY position");
  while (device.next()) profile.fingerprint.devices.push_back(device.text(0));
}

template <class Container>
auto& at(Container& container, std::int64_t index, const char* what) {
  if (index < 0 || index >= static_cast<std::int64_t>(container.size())) throw BadContent(std::string(what) + " does not exist");
  return container[as_index(index)];
}

// No layer shares more than it has, with earlier or with later layers, so no range of layers has less than nothing.
void read_tied_parameters(SQLite::Database& database, Profile& profile) {
  if (!has_table(database, "MPTUNE_TIED_PARAMETERS")) return;
  std::vector<std::int64_t> before(profile.layers.size()), after(profile.layers.size());
  const auto share = [&](std::int64_t& shared, std::int64_t layer, std::int64_t bytes) {
    shared += bytes;
    if (shared > profile.layers[as_index(layer)].parameters_bytes) throw BadContent("a layer shares more parameters than it has");
  };
  Rows tied(database, "SELECT layer, earlier_layer, bytes FROM MPTUNE_TIED_PARAMETERS ORDER BY position");
  while (tied.next()) {
    require_below_limit(profile.tied_parameters, kMostProfileEdges, "pairs of layers that share parameters");
    const std::int64_t layer = tied.integer(0), earlier = tied.integer(1), bytes = count(tied, 2, "the size of shared parameters");
    if (earlier >= layer) throw BadContent("a layer shares parameters with one that does not come before it");
    share(at(before, layer, "a layer that shares parameters"), layer, bytes);
    share(at(after, earlier, "a layer that shares parameters"), earlier, bytes);
    profile.tied_parameters.push_back({tied.as<int>(0), tied.as<int>(1), bytes});
  }
}

void read_layers(SQLite::Database& database, Profile& profile) {
  const bool unsplit = has_column(database, "MPTUNE_LAYER", "unsplit_bytes");
  const bool written = has_column(database, "MPTUNE_LAYER", "written_buffer");
  const bool tensors = has_column(database, "MPTUNE_LAYER", "parameter_tensors");
  const bool range = has_column(database, "MPTUNE_LAYER", "most_samples");
  Rows layer(database, std::string("SELECT name, kind, parameters, parameters_bytes, buffers_bytes, batch_statistics, ") +
                           (unsplit ? "unsplit_bytes, unsplit_share" : "0, 0.0") + (written ? ", written_buffer" : ", ''") +
                           (tensors ? ", parameter_tensors" : ", 0") + (range ? ", least_samples, most_samples" : ", 1, 0") +
                           " FROM MPTUNE_LAYER ORDER BY layer");
  while (layer.next()) {
    require_below_limit(profile.layers, kMostProfileLayers, "layers");
    profile.layers.push_back({.name = layer.text(0),
                              .kind = layer.text(1),
                              .modules = {},
                              .parameters = count(layer, 2, "a layer's number of parameters"),
                              .parameters_bytes = count(layer, 3, "the size of a layer's parameters"),
                              .buffers_bytes = count(layer, 4, "the size of a layer's buffers"),
                              .batch_statistics = layer.integer(5) != 0,
                              .unsplit_bytes = count(layer, 6, "the size of what a layer's backward does not split"),
                              .unsplit_share = quantity(layer, 7, "the share that a layer's backward does not split", 1),
                              .written_buffer = layer.text(8),
                              .parameter_tensors = static_cast<int>(count(layer, 9, "a layer's number of parameters", kMostSamples)),
                              .samples = {static_cast<int>(count(layer, 10, "the samples that a layer takes", kMostSamples)),
                                          static_cast<int>(count(layer, 11, "the samples that a layer takes", kMostSamples))}});
  }
  Rows module(database, "SELECT layer, module FROM MPTUNE_MODULE ORDER BY position");
  while (module.next()) at(profile.layers, module.integer(0), "the layer of a module").modules.push_back(module.text(1));
  const bool several = has_column(database, "MPTUNE_LAYER_EDGE", "several_readers");
  Rows edge(database, std::string("SELECT from_layer, to_layer, bytes_per_sample, fixed_bytes, needs_gradient, ") +
                          (several ? "several_readers" : "0") + " FROM MPTUNE_LAYER_EDGE ORDER BY edge");
  while (edge.next()) {
    require_below_limit(profile.edges, kMostProfileEdges, "edges");
    (void)at(profile.layers, edge.integer(0), "the layer of an edge");
    (void)at(profile.layers, edge.integer(1), "the layer of an edge");
    profile.edges.push_back({edge.as<int>(0), edge.as<int>(1), count(edge, 2, "the size of an edge"), count(edge, 3, "the size of an edge"),
                             edge.integer(4) != 0, edge.integer(5) != 0});
  }
  read_tied_parameters(database, profile);
  if (!has_table(database, "MPTUNE_FORBIDDEN_CUT")) return;
  Rows cut(database, "SELECT layer, reason FROM MPTUNE_FORBIDDEN_CUT ORDER BY position");
  while (cut.next()) {
    (void)at(profile.layers, cut.integer(0), "the layer of a forbidden cut");
    profile.forbidden_cuts.push_back({cut.as<int>(0), cut.text(1)});
  }
}

ExecutionVariant read_variant(Rows& rows, int column) {
  const std::int64_t format = rows.integer(column);
  if (format < 0 || as_index(format) >= kMemoryFormatNames.size()) throw BadContent("the memory format of a device class is not known");
  return {.memory_format = static_cast<MemoryFormat>(format),
          .replaces_slow_kernels = rows.integer(column + 1) != 0,
          .threads = static_cast<int>(count(rows, column + 3, "the number of threads of a device class", kMostThreads))};
}

/// Checks that `variant_of` names a class in the default variant for every other variant, and no class for the default variant.
void check_variants(const std::vector<DeviceClass>& classes) {
  for (const DeviceClass& c : classes) {
    if ((c.variant_of < 0) != (c.variant == ExecutionVariant())) throw BadContent("a device class is a variant of no class");
    if (c.variant_of >= 0 && at(classes, c.variant_of, "the class of a variant").variant_of >= 0)
      throw BadContent("a device class is a variant of a variant");
  }
}

void read_classes(SQLite::Database& database, Profile& profile) {
  const bool variants = has_column(database, "MPTUNE_DEVICE_CLASS", "variant_of");
  const std::string variant = variants ? "memory_format, replaces_slow_kernels, variant_of" : "0, 0, -1";
  const std::string threads = has_column(database, "MPTUNE_DEVICE_CLASS", "threads") ? "threads" : "0";
  const std::string reserve = has_column(database, "MPTUNE_DEVICE_CLASS", "allocator_reserve") ? "allocator_reserve" : "0.0";
  const std::string libraries = has_column(database, "MPTUNE_DEVICE_CLASS", "library_bytes") ? "library_bytes" : "0";
  Rows rows(database, "SELECT name, layers, action_seconds, step_seconds, optimizer_seconds_per_byte, reduce_seconds_per_byte, " + reserve +
                          ", " + variant + ", " + threads + ", " + libraries + " FROM MPTUNE_DEVICE_CLASS ORDER BY class");
  std::size_t in_all = 0;
  while (rows.next()) {
    require_below_limit(profile.classes, kMostDevices, "device classes");
    DeviceClass& c = profile.classes.emplace_back();
    c.name = rows.text(0);
    const std::int64_t layers = rows.integer(1);
    if (layers < 0 || layers > static_cast<std::int64_t>(profile.layers.size()))
      throw BadContent("a device class has more layers than the model");
    in_all += as_index(layers);
    if (in_all > kMostClassLayers) throw BadContent("the device classes have costs of more than 1000000 layers together");
    c.layers.resize(as_index(layers));
    c.action_seconds = quantity(rows, 2, "the time of an action");
    c.step_seconds = quantity(rows, 3, "the time of a step");
    c.optimizer_seconds_per_byte = quantity(rows, 4, "the optimizer's time per byte");
    c.reduce_seconds_per_byte = quantity(rows, 5, "the time of a sum per byte");
    c.allocator_reserve = quantity(rows, 6, "the allocator's reserve", kMostFactor);
    c.variant = read_variant(rows, 7);
    c.variant_of = rows.as<int>(9);
    c.library_bytes = count(rows, 11, "the memory that libraries keep", kMostMemoryBytes);
  }
  check_variants(profile.classes);
}

void read_host_copies(SQLite::Database& database, Profile& profile) {
  if (!has_table(database, "MPTUNE_HOST_COPIES")) return;
  const auto columns = [](const std::string& way) {
    return way + "_latency_s, " + way + "_bytes_per_second, " + way + "_by_device, " + way + "_device_seconds_per_byte";
  };
  Rows rows(database, "SELECT device, " + columns("to") + ", " + columns("from") + " FROM MPTUNE_HOST_COPIES");
  const auto copies = [&](int column) {
    return HostCopies{quantity(rows, column, "the latency of copies with the host"),
                      quantity(rows, column + 1, "the speed of copies with the host", kMostBytesPerSecond), rows.integer(column + 2) != 0,
                      quantity(rows, column + 3, "the delay by copies with the host")};
  };
  while (rows.next()) {
    ProfileDevice& device = at(profile.devices, rows.integer(0), "the device of copies with the host");
    device.to_host = copies(1);
    device.from_host = copies(5);
  }
}

void read_machine(SQLite::Database& database, Profile& profile) {
  Rows device(database, "SELECT name, class, memory_bytes FROM MPTUNE_PROFILE_DEVICE ORDER BY device");
  while (device.next()) {
    require_below_limit(profile.devices, kMostDevices, "devices");
    (void)at(profile.classes, device.integer(1), "the class of a device");
    profile.devices.push_back({device.text(0), device.as<int>(1), count(device, 2, "the memory of a device", kMostMemoryBytes)});
  }
  read_host_copies(database, profile);
  const std::string medium = has_column(database, "MPTUNE_LINK", "medium") ? "medium" : "-1";
  const std::string sender_copies = has_column(database, "MPTUNE_LINK", "sender_copies") ? "sender_copies" : "0";
  const std::string communicator = has_column(database, "MPTUNE_LINK", "communicator_bytes") ? "communicator_bytes" : "0";
  const std::string tensor = has_column(database, "MPTUNE_LINK", "tensor_s") ? "tensor_s" : "0.0";
  Rows link(database, "SELECT source, destination, latency_s, bytes_per_second, " + medium + ", " + sender_copies + ", " + communicator +
                          ", " + tensor + " FROM MPTUNE_LINK ORDER BY link");
  while (link.next()) {
    (void)at(profile.devices, link.integer(0), "the device of a link");
    (void)at(profile.devices, link.integer(1), "the device of a link");
    profile.links.push_back({link.as<int>(0),
                             link.as<int>(1),
                             quantity(link, 2, "the latency of a link"),
                             quantity(link, 3, "the speed of a link", kMostBytesPerSecond),
                             {},
                             link.as<int>(4),
                             link.integer(5) != 0,
                             quantity(link, 7, "the time of a further tensor"),
                             count(link, 6, "the buffers of a link", kMostMemoryBytes)});
  }
  if (!has_table(database, "MPTUNE_LINK_POINT")) return;
  Rows point(database, "SELECT link, bytes, seconds FROM MPTUNE_LINK_POINT ORDER BY point");
  while (point.next())
    at(profile.links, point.integer(0), "the link of a copy time")
        .curve.push_back({count(point, 1, "the size of a copy"), quantity(point, 2, "the time of a copy")});
}

void read_operators(SQLite::Database& database, Profile& profile) {
  if (!has_table(database, "MPTUNE_LAYER_OPERATOR")) return;
  Rows rows(database, "SELECT class, layer, samples, name, share, seconds, replaced_seconds FROM MPTUNE_LAYER_OPERATOR ORDER BY position");
  while (rows.next()) {
    require_below_limit(profile.operators, kMostClassLayers, "operators");
    (void)at(profile.classes, rows.integer(0), "the class of an operator");
    (void)at(profile.layers, rows.integer(1), "the layer of an operator");
    profile.operators.push_back({rows.as<int>(0), rows.as<int>(1), static_cast<int>(count(rows, 2, "a micro-batch", kMostSamples)),
                                 rows.text(3), quantity(rows, 4, "the share of an operator", 1), quantity(rows, 5, "the time of a layer"),
                                 quantity(rows, 6, "the time of a layer")});
  }
}

/// Which cost a row of MPTUNE_LAYER_COST became.
struct CostPlace {
  std::int64_t device_class = 0;
  std::int64_t layer = 0;
  std::size_t index = 0;

  [[nodiscard]] LayerCost& in(Profile& profile) const {
    return profile.classes[as_index(device_class)].layers[as_index(layer)].by_samples[index];
  }
};

std::vector<CostPlace> read_costs(SQLite::Database& database, Profile& profile) {
  std::vector<CostPlace> places;
  const std::string keeps_output = has_column(database, "MPTUNE_LAYER_COST", "keeps_output") ? "keeps_output" : "1";
  Rows cost(database, "SELECT cost, class, layer, samples, output_bytes, kept_bytes, workspace_bytes, " + keeps_output +
                          " FROM MPTUNE_LAYER_COST ORDER BY cost");
  while (cost.next()) {
    if (cost.integer(0) != static_cast<std::int64_t>(places.size())) throw BadContent("MPTUNE_LAYER_COST lacks a row");
    DeviceClass& device_class = at(profile.classes, cost.integer(1), "the class of a layer cost");
    LayerCosts& costs = at(device_class.layers, cost.integer(2), "the layer of a cost");
    places.push_back({cost.integer(1), cost.integer(2), costs.by_samples.size()});
    LayerCost& added = costs.by_samples.emplace_back();
    added.samples = static_cast<int>(count(cost, 3, "a micro-batch", kMostSamples));
    added.output_bytes = count(cost, 4, "the size of an output");
    added.saved_activation_bytes = count(cost, 5, "the size of what a layer keeps");
    added.workspace_bytes = count(cost, 6, "the size of a workspace");
    added.keeps_output = cost.integer(7) != 0;
  }
  return places;
}

void read_split(SQLite::Database& database, const std::vector<CostPlace>& places, Profile& profile) {
  if (!has_table(database, "MPTUNE_LAYER_SPLIT")) return;
  const std::string fused = has_column(database, "MPTUNE_LAYER_SPLIT", "fused_share") ? "fused_share, fused_bytes" : "NULL, 0";
  Rows split(database, "SELECT cost, held_bytes, held_input_bytes, held_gradient_bytes, input_workspace_bytes, weight_workspace_bytes, " +
                           fused + " FROM MPTUNE_LAYER_SPLIT ORDER BY cost");
  while (split.next()) {
    const char* const held = "the size of what a split backward holds";
    const char* const workspace = "the workspace of a split backward";
    SplitMemory memory{count(split, 1, held), count(split, 2, held), count(split, 3, held), count(split, 4, workspace),
                       count(split, 5, workspace)};
    const char* const share = "the share of fused weight gradients";
    if (!split.null(6)) memory.fused_share = quantity(split, 6, share, 1);
    memory.fused_bytes = count(split, 7, share);
    if (memory.held_input_bytes + memory.held_gradient_bytes > memory.held_bytes)
      throw BadContent("a split backward holds less than a part of it");
    at(places, split.integer(0), "the cost of a split backward").in(profile).split = memory;
  }
}

void read_peaks(SQLite::Database& database, const std::vector<CostPlace>& places, Profile& profile) {
  if (!has_table(database, "MPTUNE_LAYER_PEAK")) return;
  Rows peak(database, "SELECT cost, bare_forward_bytes, first_backward_bytes FROM MPTUNE_LAYER_PEAK ORDER BY cost");
  while (peak.next())
    at(places, peak.integer(0), "the cost of a peak").in(profile).peaks =
        LayerPeaks{count(peak, 1, "the peak of a forward"), count(peak, 2, "the peak of a backward")};
}

void read_samples(SQLite::Database& database, const std::vector<CostPlace>& places, Profile& profile) {
  Rows sample(database, "SELECT cost, kind, value, round, position, started FROM MPTUNE_LAYER_SAMPLE ORDER BY sample");
  while (sample.next()) {
    LayerCost& cost = at(places, sample.integer(0), "the cost of a sample").in(profile);
    Samples& samples = cost.*at(kSampleKinds, sample.integer(1), "the kind of a sample");
    samples.values.push_back({quantity(sample, 2, "the value of a sample"), sample.as<int>(3), sample.as<int>(4),
                              quantity(sample, 5, "the start of a sample", kLatestStartSeconds)});
  }
}

}  // namespace

void write_profile(SQLite::Database& database, const Profile& profile) {
  write_head(database, profile);
  write_layers(database, profile);
  write_machine(database, profile);
  write_operators(database, profile);
  CostWriter costs(database);
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const std::vector<LayerCosts>& layers = profile.classes[c].layers;
    for (std::size_t layer = 0; layer < layers.size(); ++layer)
      for (const LayerCost& cost : layers[layer].by_samples) costs.write(c, layer, cost);
  }
}

Profile read_profile(SQLite::Database& database) {
  Profile profile;
  read_head(database, profile);
  read_layers(database, profile);
  read_classes(database, profile);
  read_machine(database, profile);
  read_operators(database, profile);
  const std::vector<CostPlace> places = read_costs(database, profile);
  read_split(database, places, profile);
  read_peaks(database, places, profile);
  read_samples(database, places, profile);
  return profile;
}

}  // namespace mptune::profiler
