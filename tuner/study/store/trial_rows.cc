#include "tuner/study/store/trial_rows.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/VariadicBind.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/index.h"
#include "profiler/base/sha256.h"
#include "tuner/study/store/study_rows.h"

namespace mptune::tuner {
namespace {

// Has a row per trial that was disturbed. The table is made with the first row, as studies of earlier versions do not have it.
constexpr const char* kNoiseTable = R"sql(
CREATE TABLE IF NOT EXISTS noise (
  trial INTEGER PRIMARY KEY REFERENCES trial,
  left_out INTEGER NOT NULL,
  kept INTEGER NOT NULL,
  disturbed_by TEXT NOT NULL,
  share REAL NOT NULL
) STRICT;
)sql";

constexpr const char* kTables = R"sql(
CREATE TABLE value (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE plan (plan_key TEXT PRIMARY KEY, plan TEXT NOT NULL) STRICT;
CREATE TABLE trial (
  id INTEGER PRIMARY KEY,
  series INTEGER NOT NULL,
  name TEXT NOT NULL,
  plan_key TEXT NOT NULL REFERENCES plan,
  outcome TEXT NOT NULL,
  device TEXT,
  requested_bytes INTEGER,
  cap_bytes INTEGER,
  limit_s REAL,
  signal INTEGER,
  exit_code INTEGER,
  reason TEXT,
  loss REAL,
  finished_utc TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE TABLE sample (
  trial INTEGER NOT NULL REFERENCES trial,
  number INTEGER NOT NULL,
  value_s REAL NOT NULL,
  round INTEGER NOT NULL,
  position INTEGER NOT NULL,
  started_s REAL NOT NULL,
  PRIMARY KEY (trial, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE peak (
  trial INTEGER NOT NULL REFERENCES trial,
  device INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (trial, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE prediction (
  trial INTEGER PRIMARY KEY REFERENCES trial,
  step_s REAL NOT NULL,
  lower_bound_s REAL NOT NULL,
  limiting_stage INTEGER NOT NULL,
  extrapolated INTEGER NOT NULL
) STRICT;
CREATE TABLE predicted_peak (
  trial INTEGER NOT NULL REFERENCES trial,
  device INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (trial, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE predicted_busy (
  trial INTEGER NOT NULL REFERENCES trial,
  device INTEGER NOT NULL,
  busy_s REAL NOT NULL,
  PRIMARY KEY (trial, device)
) STRICT, WITHOUT ROWID;
)sql";

// Columns that only some outcomes have.
struct OutcomeRow {
  std::optional<std::string> device;
  std::optional<std::int64_t> requested_bytes;
  std::optional<std::int64_t> cap_bytes;
  std::optional<double> limit_s;
  std::optional<int> signal;
  std::optional<int> exit_code;
  std::optional<std::string> reason;
  std::optional<double> loss;
};

OutcomeRow row_of(const Outcome& outcome) {
  OutcomeRow row;
  if (const auto* o = std::get_if<Measured>(&outcome)) row.loss = o->loss;
  if (const auto* o = std::get_if<OutOfMemory>(&outcome)) {
    row.device = o->device;
    row.requested_bytes = o->requested_bytes;
    row.cap_bytes = o->cap_bytes;
  }
  if (const auto* o = std::get_if<TimedOut>(&outcome)) {
    row.limit_s = o->limit_s;
    row.reason = o->doing;
  }
  if (const auto* o = std::get_if<Crashed>(&outcome)) {
    row.signal = o->signal;
    row.exit_code = o->exit_code;
    row.reason = o->doing;
  }
  if (const auto* o = std::get_if<WrongResult>(&outcome)) row.reason = o->reason;
  if (const auto* o = std::get_if<Infeasible>(&outcome)) row.reason = o->reason;
  if (const auto* o = std::get_if<Environment>(&outcome)) row.reason = o->reason;
  return row;
}

Outcome outcome_of(Outcome outcome, const OutcomeRow& row) {
  // SQLite has no NaN: it stores NULL.
  if (auto* o = std::get_if<Measured>(&outcome)) o->loss = row.loss.value_or(std::numeric_limits<double>::quiet_NaN());
  if (auto* o = std::get_if<OutOfMemory>(&outcome))
    *o = {row.device.value_or(""), row.requested_bytes.value_or(0), row.cap_bytes.value_or(0)};
  if (auto* o = std::get_if<TimedOut>(&outcome)) *o = {row.limit_s.value_or(0), row.reason.value_or("")};
  if (auto* o = std::get_if<Crashed>(&outcome)) *o = {row.signal.value_or(0), row.exit_code.value_or(0), row.reason.value_or("")};
  if (auto* o = std::get_if<WrongResult>(&outcome)) o->reason = row.reason.value_or("");
  if (auto* o = std::get_if<Infeasible>(&outcome)) o->reason = row.reason.value_or("");
  if (auto* o = std::get_if<Environment>(&outcome)) o->reason = row.reason.value_or("");
  return outcome;
}

template <class T>
void bind_optional(SQLite::Statement& statement, int place, const std::optional<T>& value) {
  if (value)
    statement.bind(place, *value);
  else
    statement.bind(place);
}

void insert_plan(SQLite::Database& database, const Trial& trial) {
  SQLite::Statement insert(database, "INSERT OR IGNORE INTO plan VALUES (?, ?)");
  insert.bind(1, trial.plan_key);
  insert.bind(2, plan_to_json(trial.plan, {}));
  insert.exec();
}

void insert_row(SQLite::Database& database, Trial& trial) {
  SQLite::Statement insert(
      database,
      "INSERT INTO trial (series, name, plan_key, outcome, device, requested_bytes, cap_bytes, limit_s, signal, exit_code, "
      "reason, loss) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const OutcomeRow row = row_of(trial.outcome);
  insert.bind(1, trial.series);
  insert.bind(2, trial.name);
  insert.bind(3, trial.plan_key);
  insert.bind(4, outcome_class(trial.outcome));
  bind_optional(insert, 5, row.device);
  bind_optional(insert, 6, row.requested_bytes);
  bind_optional(insert, 7, row.cap_bytes);
  bind_optional(insert, 8, row.limit_s);
  bind_optional(insert, 9, row.signal);
  bind_optional(insert, 10, row.exit_code);
  bind_optional(insert, 11, row.reason);
  bind_optional(insert, 12, row.loss);
  insert.exec();
  trial.id = static_cast<int>(database.getLastInsertRowid());
}

void insert_samples(SQLite::Database& database, int trial, const Samples& samples) {
  SQLite::Statement insert(database, "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?)");
  int number = 0;
  for (const Sample& sample : samples.values) {
    SQLite::bind(insert, trial, number++, sample.value, sample.round, sample.position, sample.started);
    insert.exec();
    insert.reset();
  }
}

template <class T>
void insert_per_device(SQLite::Database& database, const std::string& table, int trial, const std::vector<T>& values) {
  SQLite::Statement insert(database, "INSERT INTO " + table + " VALUES (?, ?, ?)");
  int device = 0;
  for (const T& value : values) {
    SQLite::bind(insert, trial, device++, value);
    insert.exec();
    insert.reset();
  }
}

void insert_prediction(SQLite::Database& database, int trial, const Prediction& prediction) {
  SQLite::Statement insert(database, "INSERT INTO prediction VALUES (?, ?, ?, ?, ?)");
  SQLite::bind(insert, trial, prediction.step_s, prediction.lower_bound_s, prediction.limiting_stage, prediction.extrapolated ? 1 : 0);
  insert.exec();
  insert_per_device(database, "predicted_peak", trial, prediction.peak_bytes);
  insert_per_device(database, "predicted_busy", trial, prediction.busy_s);
}

void insert_noise(SQLite::Database& database, int trial, const Noise& noise) {
  if (!noise.worst) return;
  database.exec(kNoiseTable);
  SQLite::Statement insert(database, "INSERT INTO noise VALUES (?, ?, ?, ?, ?)");
  SQLite::bind(insert, trial, noise.left_out, noise.kept, kDisturbedByNames.at(as_index(noise.worst->by)), noise.worst->share);
  insert.exec();
}

using Plans = std::map<std::string, Plan>;
using Trials = std::map<int, Trial>;

Plans select_plans(SQLite::Database& database, const std::string& folder) {
  Plans plans;
  StudyRows rows(database, folder, "plan", {"plan_key", "plan"}, 1);
  while (rows.next()) {
    const std::string key = rows.name(0), text = rows.text(1);
    const Plan plan = plan_from_json(text, folder + "/study.sqlite, " + rows.place());
    // Earlier versions wrote the same plan with other words.
    if (plan_key(plan) != key && sha256(text).substr(7, key.size()) != key) rows.refuse(0, "not the key of this plan");
    plans[key] = plan;
  }
  return plans;
}

// Reads the columns of `trial` from `first` on.
OutcomeRow outcome_row_of(StudyRows& rows, int first) {
  OutcomeRow row;
  if (!rows.null(first)) row.device = rows.words(first);
  if (!rows.null(first + 1)) row.requested_bytes = rows.bytes(first + 1);
  if (!rows.null(first + 2)) row.cap_bytes = rows.bytes(first + 2);
  if (!rows.null(first + 3)) row.limit_s = rows.number(first + 3, 0, kLongestSeconds);
  if (!rows.null(first + 4)) row.signal = rows.whole(first + 4);
  if (!rows.null(first + 5)) row.exit_code = rows.whole(first + 5, std::numeric_limits<int>::min());
  if (!rows.null(first + 6)) row.reason = rows.words(first + 6);
  if (!rows.null(first + 7)) row.loss = rows.number(first + 7, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
  return row;
}

Trial trial_of(StudyRows& row, const Plans& plans) {
  Trial trial;
  trial.id = row.whole(0);
  trial.series = row.whole(1, 0, kLargestSeries);
  trial.name = row.name(2);
  trial.plan_key = row.name(3);
  const auto plan = plans.find(trial.plan_key);
  if (plan == plans.end()) row.refuse(3, "not a key of the table plan");
  trial.plan = plan->second;
  const std::optional<Outcome> outcome = outcome_named(row.name(4));
  if (!outcome) row.refuse(4, "not an outcome that this version of mptune knows");
  trial.outcome = outcome_of(*outcome, outcome_row_of(row, 5));
  return trial;
}

Trials select_rows(SQLite::Database& database, const std::string& folder) {
  const Plans plans = select_plans(database, folder);
  Trials trials;
  StudyRows rows(database, folder, "trial",
                 {"id", "series", "name", "plan_key", "outcome", "device", "requested_bytes", "cap_bytes", "limit_s", "signal", "exit_code",
                  "reason", "loss"},
                 1);
  while (rows.next()) {
    Trial trial = trial_of(rows, plans);
    if (!trials.emplace(trial.id, std::move(trial)).second) rows.refuse(0, "twice");
  }
  return trials;
}

// Returns the trial that a row of another table names in its first column.
Trial& owner_of(StudyRows& rows, Trials& trials) {
  const auto found = trials.find(rows.whole(0));
  if (found == trials.end()) rows.refuse(0, "not an id of the table trial");
  return found->second;
}

Measured& measured_owner_of(StudyRows& rows, Trials& trials) {
  auto* measured = std::get_if<Measured>(&owner_of(rows, trials).outcome);
  if (measured == nullptr) rows.refuse(0, "a trial that was not measured");
  return *measured;
}

Prediction& predicted_owner_of(StudyRows& rows, Trials& trials) {
  Trial& trial = owner_of(rows, trials);
  if (!trial.prediction) rows.refuse(0, "a trial without a prediction");
  return *trial.prediction;
}

void select_samples(SQLite::Database& database, const std::string& folder, Trials& trials) {
  StudyRows rows(database, folder, "sample", {"trial", "number", "value_s", "round", "position", "started_s"}, 2);
  while (rows.next()) {
    std::vector<Sample>& samples = measured_owner_of(rows, trials).step_s.values;
    if (rows.whole(1) != static_cast<int>(samples.size())) rows.refuse(1, "not the next number");
    samples.push_back({.value = rows.number(2, kShortestStep, kLongestSeconds),
                       .round = rows.whole(3),
                       .position = rows.whole(4),
                       .started = rows.number(5, 0, kLongestSeconds)});
  }
  for (const auto& [id, trial] : trials) {
    const auto* measured = std::get_if<Measured>(&trial.outcome);
    if (measured != nullptr && measured->step_s.empty())
      refuse_study("it was measured, but has no samples", "table trial, id " + std::to_string(id), folder);
  }
}

void select_noise(SQLite::Database& database, const std::string& folder, Trials& trials) {
  if (!database.tableExists("noise")) return;
  StudyRows rows(database, folder, "noise", {"trial", "left_out", "kept", "disturbed_by", "share"}, 1);
  while (rows.next()) {
    Noise& noise = measured_owner_of(rows, trials).noise;
    if (noise.worst) rows.refuse(0, "twice");
    const auto by = std::ranges::find(kDisturbedByNames, rows.name(3));
    if (by == kDisturbedByNames.end()) rows.refuse(3, "not a disturbance that this version of mptune knows");
    noise = {.left_out = rows.whole(1),
             .kept = rows.whole(2),
             .worst = Disturbance{static_cast<DisturbedBy>(by - kDisturbedByNames.begin()), rows.number(4, 0, 1)}};
  }
}

void select_predictions(SQLite::Database& database, const std::string& folder, Trials& trials) {
  StudyRows rows(database, folder, "prediction", {"trial", "step_s", "lower_bound_s", "limiting_stage", "extrapolated"}, 1);
  while (rows.next()) {
    Trial& trial = owner_of(rows, trials);
    if (trial.prediction) rows.refuse(0, "twice");
    trial.prediction = {.step_s = rows.number(1, kShortestStep, kLongestSeconds),
                        .lower_bound_s = rows.number(2, 0, kLongestSeconds),
                        .peak_bytes = {},
                        .busy_s = {},
                        .limiting_stage = rows.whole(3, -1, trial.plan.num_stages() - 1),
                        .extrapolated = rows.whole(4, 0, 1) != 0};
  }
}

// Reads a table with a row per device of a trial. `list_of(rows)` is the list of the row's trial, `value_of(rows, column)` the value.
template <class ListOf, class ValueOf>
void select_per_device(StudyRows rows, Trials& trials, ListOf list_of, ValueOf value_of) {
  while (rows.next()) {
    auto& list = list_of(rows);
    const auto devices = static_cast<int>(owner_of(rows, trials).plan.devices.size());
    if (rows.whole(1, 0, devices - 1) != static_cast<int>(list.size())) rows.refuse(1, "not the next device");
    list.push_back(value_of(rows, 2));
  }
}

}  // namespace

void create_study_tables(SQLite::Database& database) {
  SQLite::Transaction transaction(database);
  database.exec(kTables);
  database.exec("PRAGMA application_id = " + std::to_string(kStudyApplication));
  database.exec("PRAGMA user_version = " + std::to_string(kStudyVersion));
  transaction.commit();
}

void insert_trial(SQLite::Database& database, Trial& trial) {
  if (trial.plan_key.empty()) trial.plan_key = plan_key(trial.plan);
  insert_plan(database, trial);
  insert_row(database, trial);
  if (const auto* measured = std::get_if<Measured>(&trial.outcome)) {
    insert_samples(database, trial.id, measured->step_s);
    insert_per_device(database, "peak", trial.id, measured->peak_bytes);
    insert_noise(database, trial.id, measured->noise);
  }
  if (trial.prediction) insert_prediction(database, trial.id, *trial.prediction);
}

std::vector<Trial> select_trials(SQLite::Database& database, const std::string& folder) {
  Trials trials = select_rows(database, folder);
  select_samples(database, folder, trials);
  select_noise(database, folder, trials);
  select_predictions(database, folder, trials);
  const auto bytes = [](StudyRows& rows, int column) { return rows.bytes(column); };
  const auto seconds = [](StudyRows& rows, int column) { return rows.number(column, 0, kLongestSeconds); };
  const auto rows_of = [&](const char* table, const char* column) {
    return StudyRows(database, folder, table, {"trial", "device", column}, 2);
  };
  select_per_device(
      rows_of("peak", "bytes"), trials, [&](StudyRows & rows) -> auto& { return measured_owner_of(rows, trials).peak_bytes; }, bytes);
  select_per_device(
      rows_of("predicted_peak", "bytes"), trials, [&](StudyRows & rows) -> auto& { return predicted_owner_of(rows, trials).peak_bytes; },
      bytes);
  select_per_device(
      rows_of("predicted_busy", "busy_s"), trials, [&](StudyRows & rows) -> auto& { return predicted_owner_of(rows, trials).busy_s; },
      seconds);
  std::vector<Trial> list;
  for (auto& [id, trial] : trials) list.push_back(std::move(trial));
  return list;
}

}  // namespace mptune::tuner
