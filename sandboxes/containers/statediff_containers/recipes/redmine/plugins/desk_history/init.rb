# frozen_string_literal: true

# What the house rules of the helpdesk ask for and Redmine leaves out: the history also says who
# watched an issue from when on, and when it was closed. Whoever may edit an issue may correct the
# time of closing.
Redmine::Plugin.register :desk_history do
  name 'Desk history'
  description 'Watchers and the time of closing are part of the history of an issue.'
  version '1.0.0'
end

module DeskHistory
  module Issues
    def journalized_attribute_names
      super | ['closed_on']
    end

    def update_closed_on
      super unless closed_on_changed?
    end

    def remove_watcher(user)
      super.tap { |gone| DeskHistory.watching(self, user.id, nil) if gone.to_i.positive? }
    end
  end

  def self.watching(issue, before, after)
    return unless User.current.logged?

    journal = Journal.new(:journalized => issue, :user => User.current)
    journal.details << JournalDetail.new(
      :property => 'attr', :prop_key => 'nosy', :old_value => before, :value => after
    )
    journal.save
  end
end

Rails.application.config.after_initialize do
  Issue.prepend DeskHistory::Issues
  Issue.safe_attributes(
    'closed_on',
    :if => lambda { |issue, user| !issue.new_record? && user.allowed_to?(:edit_issues, issue.project) }
  )
  Watcher.after_create do
    DeskHistory.watching(watchable, nil, user_id) if watchable.is_a?(Issue)
  end
end
