#pragma once
// The standard input of a job that has one. The daemon writes into a FIFO in the job directory; it
// is the only queue there is. Without a terminal the command itself reads it, and we hold a writing
// end, so that it meets no end of file while nobody writes. With a terminal we read it and type the
// bytes there. No allocation; nothing of this is inherited by the command but its own descriptor.

#include <cstddef>

namespace waybill::shim {

class Input {
 public:
  // Before the fork. 0 or errno. `terminal`: the side of the job's terminal that we type at, or -1.
  int open(int dir, int terminal);

  // The reading end that becomes the command's descriptor 0; -1 when it has none of this FIFO.
  int child_end() const { return child_; }
  void forget_child_end();

  // What poll() should wait for; -1: nothing.
  int wanted() const { return to_type() == 0 ? read_ : -1; }
  bool types() const { return to_type() > 0; }

  // Moves what can be moved from the FIFO to the terminal.
  void move();

  // Nobody will write any more: the command reads the rest and then the end of the file.
  void end();

  // The main process has ended. Who still writes learns that nobody reads.
  void drop();

 private:
  std::size_t to_type() const { return filled_ - typed_; }
  bool type_some();
  void add_end_of_file();

  int hold_ = -1;      // our writing end, without a terminal
  int child_ = -1;     // the command's reading end, until the fork
  int read_ = -1;      // our reading end, with a terminal
  int terminal_ = -1;  // not ours to close
  bool ending_ = false;
  bool line_begun_ = false;  // something was typed since the last end of a line
  std::size_t filled_ = 0;   // in the one buffer, below it what was typed already
  std::size_t typed_ = 0;
};

}  // namespace waybill::shim
