#include "tuner/study/store/study.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/VariadicBind.h>
#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/printable.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/text.h"
#include "profiler/trace/store/hostile_database.h"
#include "profiler/trace/values/model_text.h"
#include "tuner/study/store/study_files.h"
#include "tuner/study/store/study_rows.h"
#include "tuner/study/store/trial_rows.h"

namespace mptune::tuner {
namespace {

using Json = nlohmann::json;

constexpr int kBusyMs = 2000;

// Names in the table `value`.
constexpr const char* kIdentity = "identity";
constexpr const char* kCommand = "command";
constexpr const char* kChecked = "checked";
constexpr const char* kFailed = "failed";
constexpr const char* kFinalSeries = "final_series";
constexpr const char* kNotBenchmarked = "not_raced";  // the name in studies of earlier versions
constexpr const char* kStopReason = "stop_reason";
constexpr const char* kSummary = "summary";

std::string database_path(const std::string& folder) {
  return folder + "/study.sqlite";
}

[[noreturn]] void rethrow(const SQLite::Exception& error, const std::string& folder) {
  switch (error.getErrorCode() & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error("another program is using this study", folder, "wait for it to end, or give another -o");
    case SQLITE_FULL:
    case SQLITE_IOERR:
      throw Error(std::string("can't write the study: ") + error.what(), folder, "free some space", ExitCode::environment);
    case SQLITE_NOMEM:
      throw Error("too little memory for the study", folder, "free memory, or raise its limit (ulimit -v)", ExitCode::environment);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      throw Error(std::string("can't write the study: ") + error.what(), folder, "make the folder writable, or give another -o");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // a table or a column is missing
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_CONSTRAINT:
      throw Error(std::string("the study is damaged: ") + error.what(), folder, "start a new one with another -o");
    default:
      throw Error(std::string("the study can't be used: ") + error.what(), folder, "start a new one with another -o; report this",
                  ExitCode::internal);
  }
}

Json parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json(text) : json;
}

// Returns the names of the top-level entries in which the two differ; "identity" where they are no objects.
std::string difference(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return "identity";
  Json both = a;
  both.update(b);
  std::string names;
  for (const auto& [key, value] : both.items()) {
    if (a.contains(key) && b.contains(key) && a[key] == b[key]) continue;
    names += (names.empty() ? "" : ", ") + key;
  }
  return names;
}

// Makes paths relative to `home`, as studies of earlier versions name files by absolute paths.
Json with_own_paths(Json identity, const std::string& home) {
  const auto absolute = [&](const char* name) {
    const bool text = identity.is_object() && identity.contains(name) && identity[name].is_string();
    return text && identity[name].get_ref<const std::string&>().starts_with('/');
  };
  if (absolute("model")) identity["model"] = model_from_folder(identity["model"], home);
  if (absolute("data")) identity["data"] = path_from_folder(identity["data"], home);
  return identity;
}

// "transformer:d=256" and "./nets/transformer.pt" both give "transformer".
std::string model_name(const std::string& identity, const std::string& folder) {
  const Json json = parsed(identity);
  std::string model;
  for (const Json& place : {json, json.is_object() ? json.value("setup", Json()) : Json()})
    if (model.empty() && place.is_object() && place.contains("model") && place["model"].is_string()) model = place["model"];
  if (model.empty()) model = folder;
  while (model.size() > 1 && model.back() == '/') model.pop_back();
  std::string name = parse_model_text(model).stem;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ? c : '_';
  return name.empty() ? "model" : name;
}

void check_is_study(const std::string& folder) {
  if (!Study::is_study(folder)) throw Error("this is not a study", folder, "give a folder that mptune tune wrote");
  if (const long long version = sqlite_header_number(database_path(folder), 60); version > kStudyVersion) {
    throw Error("the study was written by a newer mptune (version " + std::to_string(version) + ")", folder,
                "upgrade mptune, or start a new study with another -o");
  }
}

void check_is_there(const std::string& folder) {
  std::error_code failed;
  if (!std::filesystem::exists(folder, failed)) throw Error("there is no study to resume", folder, "leave --resume out to start one");
  check_is_study(folder);
}

// Without a write-ahead log nobody writes: the study is then read as an immutable database, without leaving files beside it. It is read in
// the same way in a read-only folder, where SQLite can't make the log's shared memory.
std::unique_ptr<SQLite::Database> open_to_read(const std::string& folder) {
  const std::string path = std::filesystem::absolute(database_path(folder)).string();
  std::string uri = "file:";
  for (const char c : path) uri += c == '?' ? "%3f" : c == '#' ? "%23" : c == '%' ? "%25" : std::string(1, c);
  try {
    if (std::filesystem::exists(path + "-wal")) {
      auto database = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READONLY, kBusyMs);
      database->execAndGet("SELECT count(*) FROM sqlite_schema");
      return database;
    }
  } catch (const SQLite::Exception&) {  // NOLINT(bugprone-empty-catch): a read-only folder
  }
  return std::make_unique<SQLite::Database>(uri + "?immutable=1", SQLite::OPEN_READONLY | SQLite::OPEN_URI, kBusyMs);
}

std::string profile_path_in(const std::string& folder) {
  return folder + "/traces/profile.sqlite";
}

// Returns false for damaged studies and those of newer versions: they stay for whoever made them.
bool nothing_to_lose(const std::string& folder) {
  if (sqlite_header_number(database_path(folder), 60) > kStudyVersion) return false;
  try {
    const auto database = open_to_read(folder);
    if (!profiler::first_active_object(*database).empty()) return false;
    const auto has = [&](const std::string& rows) {
      return database->execAndGet("SELECT EXISTS (SELECT 1 FROM " + rows + ")").getInt() != 0;
    };
    std::error_code ignored;
    if (has("trial WHERE outcome = 'measured'")) return false;
    return has("value WHERE name = '" + std::string(kFailed) + "' AND value <> ''") ||
           !std::filesystem::exists(profile_path_in(folder), ignored);
  } catch (const SQLite::Exception&) {
    return false;
  }
}

void check_free(const std::string& folder, bool force) {
  std::error_code failed;
  if (!std::filesystem::exists(folder, failed)) return;
  if (!std::filesystem::is_directory(folder, failed)) throw Error("the study's path is a file", folder, "give another -o");
  if (is_empty_study_folder(folder)) return;
  if (!Study::is_study(folder)) throw Error("the folder exists and is not a study of mptune", folder, "give another -o");
  if (!force && !nothing_to_lose(folder))
    throw Error("the study exists", folder, "go on with --resume, replace it with --force, or give another -o");
}

void set_journal(SQLite::Database& database, const std::string& folder) {
  const bool network = on_network_file_system(folder);
  database.execAndGet(network ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL");
  database.exec(network ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  database.exec("PRAGMA foreign_keys = ON");
}

}  // namespace

struct Study::Impl {
  std::string folder;
  std::optional<FolderLock> lock;
  std::unique_ptr<SQLite::Database> database;
  std::unique_ptr<profiler::WorkLimit> limit;  // limits the work of each access

  // Every access goes through here, so that one place turns SQLite's errors into an Error.
  template <class F>
  auto use(F&& access) const {
    try {
      limit->restart(bytes());
      return access(*database);
    } catch (const SQLite::Exception& error) {
      rethrow(error, folder);
    }
  }

  void open(Open mode, bool force) {
    if (mode == Open::read) {
      check_is_study(folder);
      database = open_to_read(folder);
      return guard();
    }
    const bool anew = mode == Open::create || is_empty_study_folder(folder);
    if (mode == Open::create) check_free(folder, force);
    if (anew)
      make_study_folder(folder);
    else
      check_is_there(folder);
    lock.emplace(folder);
    // Another program may have begun a study before the lock was ours.
    if (mode == Open::create) check_free(folder, force);
    if (mode == Open::create || (anew && is_empty_study_folder(folder))) remove_study_files(folder);
    database = std::make_unique<SQLite::Database>(database_path(folder), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyMs);
    // A creation that was cut off has been undone by the journal now.
    if (database->execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0) create_study_tables(*database);
    set_journal(*database, folder);
    guard();
  }

  // Returns the size of the file and of the log that is not in it yet.
  [[nodiscard]] std::uintmax_t bytes() const {
    std::uintmax_t sum = 0;
    for (const char* part : {"", "-wal"}) {
      std::error_code failed;
      const std::uintmax_t size = std::filesystem::file_size(database_path(folder) + part, failed);
      if (!failed) sum += size;
    }
    return sum;
  }

  // Guards against a file that anybody may have made, as studies are handed on.
  void guard() {
    limit = std::make_unique<profiler::WorkLimit>(*database, bytes());
    if (const std::string name = profiler::first_active_object(*database); !name.empty())
      refuse_study("'" + name.substr(0, 80) + "' is a view or a trigger", "the schema", folder);
  }
};

Study::Study(const std::string& folder, Open mode, bool force) : impl_(std::make_unique<Impl>()) {
  impl_->folder = folder;
  while (impl_->folder.size() > 1 && impl_->folder.back() == '/') impl_->folder.pop_back();
  try {
    impl_->open(mode, force);
  } catch (const SQLite::Exception& error) {
    rethrow(error, folder);
  }
}

void Study::check(const std::string& folder, Open mode, bool force) {
  require_path_for_sqlite(database_path(folder));
  if (mode == Open::create) return check_free(folder, force);
  if (mode == Open::read) return check_is_study(folder);
  if (!is_empty_study_folder(folder)) check_is_there(folder);
}

Study::~Study() = default;
Study::Study(Study&&) noexcept = default;
Study& Study::operator=(Study&&) noexcept = default;

void Study::set_identity(const std::string& identity_json) {
  const std::string before = identity();
  if (before.empty()) return set_value(kIdentity, identity_json);
  const Json was = with_own_paths(parsed(before), home());
  const Json is = parsed(identity_json);
  if (was == is) return;
  throw Error("the study was made with another " + difference(was, is), impl_->folder,
              "repeat the options it was made with, or start a new study with another -o");
}

std::string Study::identity() const {
  return value(kIdentity);
}

std::string Study::command() const {
  return value(kCommand);
}

void Study::set_command(const std::string& command_json) {
  set_value(kCommand, command_json);
}

bool Study::checked() const {
  return !value(kChecked).empty();
}

void Study::set_checked() {
  set_value(kChecked, "yes");
}

void Study::set_failed(bool failed) {
  if (failed == value(kFailed).empty()) set_value(kFailed, failed ? "yes" : "");
}

std::optional<int> Study::final_series() const {
  const std::string text = value(kFinalSeries);
  if (text.empty()) return std::nullopt;
  const std::optional<std::int64_t> series = integer(text);
  if (series && *series >= 0 && *series <= kLargestSeries && has_series(*series)) return static_cast<int>(*series);
  refuse_study("final_series is '" + printable(text.substr(0, 40)) + "', no series of its trials", "table value", impl_->folder);
}

bool Study::has_series(std::int64_t series) const {
  return impl_->use([&](SQLite::Database& database) {
    SQLite::Statement row(database, "SELECT 1 FROM trial WHERE series = ? LIMIT 1");
    row.bind(1, series);
    return row.executeStep();
  });
}

void Study::set_final_series(int series) {
  set_value(kFinalSeries, std::to_string(series));
}

std::string Study::not_benchmarked() const {
  return printable(value(kNotBenchmarked));
}

void Study::set_not_benchmarked(const std::string& descriptions) {
  set_value(kNotBenchmarked, descriptions);
}

std::string Study::stop_reason() const {
  return printable(value(kStopReason));
}

void Study::set_stop_reason(const std::string& reason) {
  set_value(kStopReason, reason);
}

std::optional<StudySummary> Study::summary() const {
  const std::string json = value(kSummary);
  if (json.empty()) return std::nullopt;
  StudySummary summary = summary_from_json(json, impl_->folder);
  summary.training = with_files_in_folder(std::move(summary.training), home());
  return summary;
}

void Study::set_summary(const StudySummary& summary) {
  StudySummary shared = summary;
  shared.training = with_files_from_folder(std::move(shared.training), home());
  set_value(kSummary, summary_to_json(shared));
}

void Study::set_value(const char* name, const std::string& value) {
  impl_->use([&](SQLite::Database& database) {
    SQLite::Statement insert(database, "INSERT INTO value VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value");
    SQLite::bind(insert, name, value);
    insert.exec();
  });
}

std::string Study::value(const char* name) const {
  return impl_->use([&](SQLite::Database& database) {
    SQLite::Statement row(database, "SELECT value FROM value WHERE name = ?");
    row.bind(1, name);
    if (!row.executeStep()) return std::string();
    if (!row.getColumn(0).isText()) refuse_study("value is not a text", std::string("table value, name ") + name, impl_->folder);
    return row.getColumn(0).getString();
  });
}

int Study::add(Trial& trial) {
  return impl_->use([&](SQLite::Database& database) {
    SQLite::Transaction transaction(database);
    insert_trial(database, trial);
    transaction.commit();
    return trial.id;
  });
}

std::vector<Trial> Study::trials() const {
  return impl_->use([this](SQLite::Database& database) { return select_trials(database, impl_->folder); });
}

int Study::next_series() const {
  const std::int64_t last =
      impl_->use([](SQLite::Database& database) { return database.execAndGet("SELECT coalesce(max(series), -1) FROM trial").getInt64(); });
  if (last < -1 || last >= kLargestSeries) refuse_study("series is " + std::to_string(last) + ", too large", "table trial", impl_->folder);
  return static_cast<int>(last) + 1;
}

std::string Study::folder() const {
  return impl_->folder;
}

std::string Study::home() const {
  return std::filesystem::path(absolute_path(impl_->folder)).parent_path().string();
}

std::string Study::profile_path() const {
  return trace_path("profile");
}

std::string Study::trace_path(const std::string& name) const {
  return impl_->folder + "/traces/" + name + ".sqlite";
}

std::string Study::plan_path() const {
  return impl_->folder + "/" + model_name(identity(), impl_->folder) + ".plan.json";
}

std::string Study::failed_plan_path(const std::string& plan_key) const {
  make_folder(impl_->folder + "/failed");
  return impl_->folder + "/failed/" + plan_key + ".plan.json";
}

std::string Study::report_path() const {
  return impl_->folder + "/report.html";
}

bool Study::is_study(const std::string& path) {
  return sqlite_header_number(database_path(path), 68) == kStudyApplication;
}

}  // namespace mptune::tuner
