#pragma once
// The adapter for a Claude Code whose standard input this program owns (`claude -p --input-format
// stream-json`): a text goes in as a line of the user's, between two lines of whoever else writes
// there. Nothing of it survives the client, so a delivery is acknowledged when the turn that read
// it has ended.
//
// The bytes go through one thread, which tells of them (sent, received, next_line …); the adapter's
// calls come from another.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "edge/adapter.h"

namespace waybill::cli {

// Collects the lines of a stream of bytes; of a longer line only its beginning.
class LineReader {
 public:
  using Take = std::function<void(const std::string& line, bool whole)>;
  void add(std::string_view bytes, const Take& take);
  bool at_start() const { return !inside_; }

 private:
  std::string line_;
  bool inside_ = false;
  bool whole_ = true;
};

class ClaudeStream : public edge::Adapter {
 public:
  struct Told {
    std::function<void()> line_waits;                         // for next_line; any thread
    std::function<void(const std::string& session)> session;  // the client has (another) one
    std::function<void(const std::string& delivery)> read;    // to be acknowledged; any thread
    std::function<void()> user = {};                          // a user's line has passed
  };
  explicit ClaudeStream(Told told, Millis patience = Millis{5000});

  // ---- the thread of the bytes ----
  void sent(std::string_view bytes);      // somebody else's, on their way to the client
  void received(std::string_view bytes);  // from the client
  // A line to be written now, whole and before anything else; "" none.
  std::string next_line();
  void written();  // that line is with the client
  void closed();   // nothing can be written any more

  // ---- the adapter ----
  edge::Probe probe() override;
  edge::PutOutcome steer(const std::string& turn, std::string_view text) override;
  edge::PutOutcome wake(std::string_view text) override;
  edge::PutOutcome inject(std::string_view text) override;  // busy
  bool durable() const override { return false; }
  void recorded(const std::string& delivery) override;

 private:
  enum class Stage { none, waits, writing, done };
  // A text that is with the client, and how far the client has shown that its model read it.
  struct Sent {
    bool began_turn = false;  // nothing ran: the next result is its turn's
    bool tool_seen = false;   // a tool's result came after it …
    bool model_seen = false;  // … and then the model spoke
    bool over = false;
    std::string delivery;  // "" not recorded yet
  };

  edge::PutOutcome put(const std::string& turn, bool any_turn, std::string_view text);
  void line(const std::string& text, bool whole, std::vector<std::string>& read,
            std::string& session);
  void turn_over(std::vector<std::string>& read);
  void turn_runs();

  const Told told_;
  const Millis patience_;
  LineReader from_user_;    // the thread of the bytes
  LineReader from_client_;  // the thread of the bytes

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string session_;
  bool running_ = false;
  bool closed_ = false;
  unsigned turn_ = 0;
  Stage stage_ = Stage::none;
  std::string waiting_line_;
  std::string wanted_turn_;
  bool any_turn_ = false;
  edge::PutOutcome outcome_ = edge::PutOutcome::unreachable;
  std::vector<Sent> sent_;
};

}  // namespace waybill::cli
