#include "mptune/planner/plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "mptune/planner/plan_json.h"
#include "mptune/profiler/base/error.h"

namespace mptune {
namespace {

constexpr const char* kSchema = "mptune.plan/1";
constexpr const char* kFamily = "mptune.plan/";
constexpr std::int64_t kLargestFile = std::int64_t{64} << 20;

Fingerprint fingerprint_from(const JsonObject& object) {
  Fingerprint fingerprint;
  fingerprint.model = object.text_or("model", "");
  fingerprint.input = object.text_or("input", "");
  if (object.find("devices") != nullptr) fingerprint.devices = object.texts("devices");
  fingerprint.libtorch = object.text_or("libtorch", "");
  fingerprint.cuda = object.text_or("cuda", "");
  return fingerprint;
}

Json predicted_object(const PredictedStep& predicted) {
  Json object;
  object["step_s"] = predicted.step_s;
  object["lower_bound_s"] = predicted.lower_bound_s;
  object["peak_bytes"] = predicted.peak_bytes;
  return object;
}

PredictedStep predicted_from(const JsonObject& object) {
  PredictedStep predicted;
  predicted.step_s = object.number("step_s");
  predicted.lower_bound_s = object.number("lower_bound_s");
  predicted.peak_bytes = object.byte_counts("peak_bytes");
  return predicted;
}

Json measured_object(const MeasuredStep& measured) {
  Json object;
  object["step_s"] = measured.step_s;
  object["step_ci95_s"] = {measured.step_ci95_s.low, measured.step_ci95_s.high};
  object["step_samples"] = measured.step_samples;
  object["peak_bytes"] = measured.peak_bytes;
  object["verdict"] = to_string(measured.verdict);
  if (!measured.speedup_over.empty()) {
    object["speedup"]["over"] = measured.speedup_over;
    object["speedup"]["estimate"] = measured.speedup.estimate;
    object["speedup"]["ci95"] = {measured.speedup.ci95.low, measured.speedup.ci95.high};
  }
  return object;
}

Interval interval_from(const JsonObject& object, const char* key) {
  const std::vector<double> ends = object.numbers(key);
  if (ends.size() != 2 || ends[0] > ends[1]) object.refuse(key, "must be [low, high]");
  return {ends[0], ends[1]};
}

Verdict verdict_of(const JsonObject& object) {
  try {
    return verdict_from(object.text("verdict"));
  } catch (const Error&) {
    object.refuse("verdict", "is not a verdict, like FAST");
  }
}

MeasuredStep measured_from(const JsonObject& object) {
  MeasuredStep measured;
  measured.step_s = object.number("step_s");
  measured.step_ci95_s = interval_from(object, "step_ci95_s");
  measured.step_samples = object.integer("step_samples");
  measured.peak_bytes = object.byte_counts("peak_bytes");
  measured.verdict = verdict_of(object);
  if (object.find("speedup") != nullptr) {
    const JsonObject speedup = object.object("speedup");
    measured.speedup_over = speedup.text("over");
    measured.speedup.estimate = speedup.number("estimate");
    measured.speedup.ci95 = interval_from(speedup, "ci95");
    measured.speedup.verdict = measured.verdict;
  }
  return measured;
}

void check_schema(const JsonObject& file) {
  const std::string schema = file.text("schema");
  if (schema == kSchema) return;
  const std::string shown = schema.substr(0, 40);
  if (schema.starts_with(kFamily))
    throw Error("a plan of another version, '" + shown + "'", file.where(), "upgrade mptune, or write the plan again with this version");
  throw Error("not a plan file: its schema is '" + shown + "'", file.where(), "use a file that mptune tune or mptune plan wrote");
}

std::string read_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw Error(std::string("can't open: ") + std::strerror(errno), path, "name an existing plan file");
  if (!S_ISREG(status.st_mode)) throw Error("not a regular file", path, "name a plan file");
  if (status.st_size > kLargestFile) throw Error("larger than 64 MiB", path, "name a plan file");
  std::ifstream stream(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream) throw Error("can't be read", path, "check its permissions and the disk", ExitCode::environment);
  return text;
}

bool is_plan_file(const std::string& path) {
  try {
    const Json file = parse_json(read_file(path), path);
    return JsonObject(file, "", path).text_or("schema", "").starts_with(kFamily);
  } catch (const Error&) {
    return false;
  }
}

// A file under a temporary name; removed again unless it was renamed to its place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : target_(target) {
    for (int attempt = 0; descriptor_ < 0 && attempt < 100; ++attempt) {
      name_ = target + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(attempt);
      descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST) break;
    }
    if (descriptor_ < 0) fail("can't write here");
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(name_.c_str());
  }

  void write(const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail("can't be written");
      done += static_cast<std::size_t>(count);
    }
  }

  void rename() {
    if (::fsync(descriptor_) != 0) fail("can't be written");
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) fail("can't be written");
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail("can't be replaced");
    renamed_ = true;
    sync_folder();
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const int code = errno;
    const bool users =
        code == ENOENT || code == ENOTDIR || code == EISDIR || code == ENAMETOOLONG || code == EROFS || code == EACCES || code == EPERM;
    throw Error(std::string(what) + ": " + std::strerror(code), target_, "choose an existing, writable folder with space left with -o",
                users ? ExitCode::usage : ExitCode::environment);
  }

  // Not every file system can sync a folder; the file itself is safe by now.
  void sync_folder() const {
    const std::size_t slash = target_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
  }

  std::string target_;
  std::string name_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

}  // namespace

std::string to_json(const PlanFile& file) {
  Json object;
  object["schema"] = kSchema;
  object["created"] = file.created;
  object["tool"]["name"] = "mptune";
  object["tool"]["version"] = MPTUNE_VERSION;
  object["study"] = file.study;
  object["trial"] = file.trial;
  object["fingerprint"] = fingerprint_object(file.fingerprint);
  object["plan"] = plan_object(file.plan, file.modules);
  if (file.predicted) object["predicted"] = predicted_object(*file.predicted);
  if (file.measured) object["measured"] = measured_object(*file.measured);
  object["alternatives"] = Json::array();
  for (const AlternativePlan& alternative : file.alternatives) {
    Json entry;
    entry["reason"] = alternative.reason;
    entry["plan"] = plan_object(alternative.plan, {});
    object["alternatives"].push_back(entry);
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

PlanFile parse_plan_file(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where);
  const JsonObject object(json, "", where);
  check_schema(object);
  PlanFile file;
  PlanWithModules read = plan_from_object(object.at("plan"), where);
  file.plan = std::move(read.plan);
  file.modules = std::move(read.modules);
  file.created = object.text_or("created", "");
  file.study = object.text_or("study", "");
  if (object.find("trial") != nullptr) file.trial = object.integer("trial");
  if (object.find("fingerprint") != nullptr) file.fingerprint = fingerprint_from(object.object("fingerprint"));
  if (object.find("predicted") != nullptr) file.predicted = predicted_from(object.object("predicted"));
  if (object.find("measured") != nullptr) file.measured = measured_from(object.object("measured"));
  if (object.find("alternatives") == nullptr) return file;
  for (const Json& value : object.array("alternatives")) {
    const JsonObject entry(value, "alternatives[]", where);
    file.alternatives.push_back({entry.text_or("reason", ""), plan_from_object(entry.at("plan"), where).plan});
  }
  return file;
}

PlanFile load_plan_file(const std::string& path) {
  return parse_plan_file(read_file(path), path);
}

PlanFile load_plan(const std::string& path) {
  const char* instead = std::getenv("MPTUNE_PLAN");
  return load_plan_file(instead != nullptr && *instead != '\0' ? instead : path);
}

void save_plan_file(const PlanFile& file, const std::string& path, bool force) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) throw Error("not a regular file", path, "choose another name with -o");
    if (!force && !is_plan_file(path))
      throw Error("the file exists and was not written by mptune", path, "choose another name with -o, or add --force");
  }
  TemporaryFile temporary(path);
  temporary.write(to_json(file));
  temporary.rename();
}

}  // namespace mptune
